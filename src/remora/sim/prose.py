"""What do simulated people write? One long text is made from the seed; every comment is a slice of it.

Everything here is already escaped like the provider's JSON, so a body is put together without encoding.
"""

import json
from random import Random
from typing import Final

_SOME_WORDS: Final = (
    "actually after again almost always another answer anything around because before better between build cache careful "
    "change cheap cloud code company compiler could data database deploy difference disk does easier either engineer enough "
    "every example expensive experience fast fewer found framework funny future garbage good graph group hardware honest idea "
    "interesting into kernel know language large later latency less library little long machine maintain many market memory "
    "might model money months more most much network never nobody nothing number often once only open other part people phone "
    "point price probably problem production program project question quite read really reason remember right same scale "
    "search seems server several shell should simple since slow small software some something sometimes source still store "
    "surprising system team test than that their there these thing think this those though through time together tool trust "
    "truth under until useful version very wait want watch week well what when where which while whole with without work "
    "world would write wrong years yesterday café naïve Zürich 東京 привет 🙂"
)
_WORDS: Final = tuple(_SOME_WORDS.split())
_SOME_SYLLABLES: Final = "ba do fi ga jo ka lu mi no pe qua ri sa tho u ve wi xo ya zen"
_SYLLABLES: Final = tuple(_SOME_SYLLABLES.split())
_SITES: Final = ("example.com", "blog.example.org", "news.example.net", "code.example.io", "paper.example.edu")
_SENTENCES: Final = 4_000
# How many sentences a text has: most are short, a few are essays. The mean gives bodies of about 454 bytes.
_LENGTHS: Final = (1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5, 6, 7, 9, 14)
_DRAW_MAX: Final = 1 << 32


class Prose:
    """Texts, titles, addresses and names."""

    def __init__(self, seed: int) -> None:
        chance = Random(f"prose/{seed}")
        sentences = [_sentence(chance) for _ in range(_SENTENCES)]
        self._pool = b"".join(sentences)
        self._ends: list[int] = []
        end = 0
        for sentence in sentences:
            end += len(sentence)
            self._ends.append(end)
        self._titles = [_title(chance) for _ in range(_SENTENCES)]

    def text(self, start_draw: int, length_draw: int, *, edited: bool = False) -> bytes:
        """A slice of whole sentences, as a JSON string; an edited text has one sentence more."""
        count = _LENGTHS[length_draw % len(_LENGTHS)] + (1 if edited else 0)
        first = start_draw * (_SENTENCES - count - 1) // _DRAW_MAX
        return b'"' + self._pool[self._ends[first] : self._ends[first + count]].rstrip() + b'"'

    def title(self, draw: int, *, edited: bool = False) -> bytes:
        """A title, as a JSON string; not HTML-escaped."""
        title = self._titles[draw % _SENTENCES]
        return title[:-1] + b' (2025)"' if edited else title

    def url(self, draw: int) -> bytes:
        """An address, as a JSON string."""
        return f'"https://{_SITES[draw % len(_SITES)]}/{draw >> 12:x}?ref=a&page={draw % 7}"'.encode()


def name_of(number: int) -> str:
    """The name of the n-th person; `number_of` reads it back."""
    first, second = number % len(_SYLLABLES), number // len(_SYLLABLES) % len(_SYLLABLES)
    return f"{_SYLLABLES[first]}{_SYLLABLES[second]}_{number}"


def number_of(name: str) -> int | None:
    """The number of the person with this name; None if nobody has it."""
    digits = name.rpartition("_")[2]
    # isdecimal alone would accept digits of other scripts.
    number = int(digits) if digits.isascii() and digits.isdecimal() else None
    return number if number is not None and name_of(number) == name else None


def _sentence(chance: Random) -> bytes:
    words = chance.choices(_WORDS, k=chance.randint(5, 20))
    match chance.randrange(40):
        case 0:
            words.insert(
                1, f'<a href="https:&#x2F;&#x2F;{chance.choice(_SITES)}&#x2F;{chance.randrange(9999)}" rel="nofollow">'
            )
            words.append("</a>")
        case 1:
            words = ["<i>", *words, "</i>"]
        case 2:
            words = ["<pre><code>", *words, "\n</code></pre>"]
        case 3 | 4 | 5:
            words.insert(2, "don&#x27;t")
        case 6:
            words.insert(0, "&gt;")
        case 7:
            words.insert(1, "&quot;no&quot;")
        case _:
            words[0] = words[0].capitalize()
    end = "<p>" if chance.random() < 0.2 else " "
    return _escaped(f"{' '.join(words)}.{end}")


def _title(chance: Random) -> bytes:
    prefix = chance.choice(["", "", "", "", "", "Show HN: ", "Ask HN: "])
    words = " ".join(chance.choices(_WORDS, k=chance.randint(3, 9))).capitalize()
    return b'"' + _escaped(prefix + words + chance.choice(["", "", "", " & more", ' ("quoted")', " <3"])) + b'"'


def _escaped(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()
