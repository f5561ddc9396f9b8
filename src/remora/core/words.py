"""Which words does a search find a text by? The same in every store: small letters without accents, some scripts in pairs.

Chinese and Japanese put no space between words, and Korean joins particles to them. So a run of such characters is
indexed as overlapping pairs, and its last character alone: 東京都 is 東京, 京都 and 都. Pairs in a row are exactly a part
of a run, and every character begins one of them.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

# Han, kana, bopomofo and Hangul. The signs between them are no letters and separate words before.
_PAIRED: Final = (
    "\u1100-\u11ff\u3005-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"
    "\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
_PAIRED_RUN: Final = re.compile(f"[{_PAIRED}]+")
_RUN: Final = re.compile(rf"[{_PAIRED}]+|[^\W_{_PAIRED}]+")
_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]+")
# Accents and other marks over Latin, Greek and Cyrillic letters. Marks of other scripts tell letters apart.
_ACCENTS: Final = re.compile("[\u0300-\u036f]")
# Runs as short as this are quotation marks and letters with accents: the same few again and again, so they are remembered.
_SHORT_MAX: Final = 4


def without_accents(text: str) -> str:
    """The text in small letters without accents; a final sigma and a long s are a sigma and an s."""
    if text.isascii():
        return text.lower()
    bare = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", text)))
    return bare.lower().replace("ς", "σ").replace("ſ", "s")


def searchable(text: str) -> str:
    """The text for an index whose words are ASCII letters and digits of either case, and all that is not ASCII.

    Only what is not ASCII changes, so that most texts cost nothing.
    """
    return text if text.isascii() else _NOT_ASCII.sub(_found_as, text)


def words_of(text: str) -> str:
    """The words that a text is found by, in small letters, with one space between them."""
    return _BETWEEN_WORDS.sub(" ", searchable(text).lower()).strip()


def wanted_words(text: str) -> tuple[Sequence[str], bool]:
    """The words that an index must hold in a row to find this text, and whether the last may also be longer.

    The run at the end may go on in the text that is found, so its last character alone is not asked for.
    """
    words = words_of(text).split()
    if not words or not _PAIRED_RUN.fullmatch(words[-1]):
        return words, False
    has_pair = len(words) > 1 and len(words[-2]) == 2 and _PAIRED_RUN.fullmatch(words[-2]) is not None
    return (words[:-1], False) if has_pair else (words, True)


def pattern_of(text: str) -> str | None:
    """A regular expression for this text in a line without accents, whatever is between its words. None: it has no words."""
    runs: list[str] = _RUN.findall(_BETWEEN_WORDS.sub(" ", without_accents(text)))
    if not runs:
        return None
    parts = [rf"(?<![^\W_{_PAIRED}])" if not _is_paired(runs[0]) else "", re.escape(runs[0])]
    for before, run in pairwise(runs):
        parts += [r"[\W_]+" if _is_paired(before) == _is_paired(run) else r"[\W_]*", re.escape(run)]
    parts.append(rf"(?![^\W_{_PAIRED}])" if not _is_paired(runs[-1]) else "")
    return "".join(parts)


def _is_paired(run: str) -> bool:
    """Whether a run is of characters that are indexed in pairs."""
    return _PAIRED_RUN.match(run) is not None


def _found_as(found: re.Match[str]) -> str:
    return _folded_short(found[0]) if len(found[0]) <= _SHORT_MAX else _folded(found[0])


def _folded(run: str) -> str:
    return _PAIRED_RUN.sub(_in_pairs, _BETWEEN_WORDS.sub(" ", without_accents(run)))


_folded_short: Final = lru_cache(maxsize=4_096)(_folded)


def _in_pairs(found: re.Match[str]) -> str:
    run = found[0]
    return f" {' '.join(run[place : place + 2] for place in range(len(run)))} "
