"""Does a search find exactly what the mirror holds? An index is built, killed, cleared and followed, and then asked."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, Final

from remora.contracts.reader import Reader
from remora.contracts.search import EntryColumns, IndexEntry, SearchIndex, SearchOrder, SearchQuery, SearchTerm
from remora.read.index_entries import document_entry, item_entry, text_of, title_of
from remora.read.indexing import Indexer, load_progress
from remora.sim.crash import Crashed, Generation
from remora.sim.fuzz.beside import Beside, Thing, all_documents, all_items
from remora.sim.fuzz.judge import Judge

WORDS_ASKED_MAX: Final = 150
CALLS_OF_A_LIFE_MAX: Final = 60
FOUND_MAX: Final = 100_000
_PAGE_ROWS: Final = 500
_CLEARED_SHARE: Final = 0.02
_WORD: Final = re.compile(r"[^\W_]+")


class Searching:
    """The search index of one world. The program that keeps it up to date is killed now and then."""

    def __init__(self, beside: Beside) -> None:
        self._beside = beside
        self._position = 0  # how far the index was at the last look

    async def live_on(self) -> None:
        """Live one life after another, until cancelled."""
        while True:
            await self._one_life()
            await self._beside.rest()

    async def _one_life(self) -> None:
        chance, reader, index = self._beside.chance, self._beside.reader(), self._beside.index()
        calls = chance.choice([None, chance.randint(1, CALLS_OF_A_LIFE_MAX)])
        life = Generation(die_at_call=calls, after_effect=chance.random() < 0.5)
        indexer = Indexer(life.guard(self._beside.slowly(reader)), life.guard(self._beside.slowly(index)))
        await reader.open()
        try:
            await index.open(to_write=True)
            await life.live(self._follow(indexer, reader, index))
        except Crashed:
            pass
        finally:
            await index.close()
            await reader.close()

    async def _follow(self, indexer: Indexer, reader: Reader, index: SearchIndex) -> None:
        while True:
            if not await indexer.run_once():
                await self._check_last(reader, index)
                if self._beside.chance.random() < _CLEARED_SHARE:
                    await index.clear()
                    self._position = 0
            await self._beside.rest()

    async def _check_last(self, reader: Reader, index: SearchIndex) -> None:
        """Nothing happens between these reads: where the index is up to date, it finds what changed last."""
        kept = await index.progress()
        position = 0 if kept is None else int(load_progress(kept).position)
        if position < self._position:
            self._beside.judge.fail(f"the search index went back from {self._position} to {position}")
        self._position = position
        changes = await reader.changes(str(max(0, position - 1)), limit=2)
        if [change.position for change in changes] != [str(position)]:
            return  # more has changed since, or nothing is left of it
        key = (changes[0].source, changes[0].kind, changes[0].key)
        words = sorted(await _words_of(reader, key))
        if words and key not in await _find(index, self._beside.chance.choice(words)):
            self._beside.judge.fail("the search index is up to date, and does not find what changed last")

    async def finish(self) -> None:
        """Bring the index up to date, as `remora search --build` does, and compare all of it with the mirror."""
        reader, index = self._beside.reader(), self._beside.index()
        await reader.open()
        try:
            await index.open(to_write=True)
            indexer = Indexer(reader, index)
            while await indexer.run_once():
                pass
            await compare(reader, index, self._beside.judge, self._beside.chance)
        finally:
            await index.close()
            await reader.close()


async def compare(reader: Reader, index: SearchIndex, judge: Judge, chance: Random) -> None:
    """A word finds what has it, no more and no less; a word of an earlier content finds nothing that lost it."""
    entries, earlier = await _held(reader)
    places: dict[str, set[Thing]] = {word: set() for word in earlier}
    for key, entry in entries.items():
        for word in _words(f"{entry.title}\n{entry.text}"):
            places.setdefault(word, set()).add(key)
    for word in chance.sample(sorted(places), k=min(WORDS_ASKED_MAX, len(places))):
        found = set(await _find(index, word))
        if lacks := places[word] - found:
            judge.fail(f"the search does not find {len(lacks)} of {len(places[word])} things with a word in them")
        if found - places[word]:
            judge.fail(f"the search finds {len(found - places[word])} things without the word that was asked for")
    if (size := (await index.size()).entries) != len(entries):
        judge.fail(f"the search index has {size} entries, and {len(entries)} things are held")
    columns = [EntryColumns(one.type, one.by, one.domain, one.time_s, one.score) for one in entries.values()]
    if sorted(map(repr, await index.columns(list(entries)))) != sorted(map(repr, columns)):
        judge.fail("what the search filters by is not what the mirror holds")


async def _held(reader: Reader) -> tuple[dict[Thing, IndexEntry], set[str]]:
    """What the mirror holds as the index must know it, and the words of some earlier contents."""
    entries: dict[Thing, IndexEntry] = {}
    earlier: set[str] = set()
    for source in await reader.sources():
        name = source.name
        if source.is_listed:
            entries |= {(name, "document", one.key): document_entry(one) for one in await all_documents(reader, name)}
            keys = await reader.revised_keys(name, after="", limit=_PAGE_ROWS)
            before = await reader.earlier_documents(name, keys, changed_since_ns=0, after=("", 0))
            earlier |= _all_words(document.fields for document in before)
        else:
            entries |= {(name, "item", str(one.id)): item_entry(one) for one in await all_items(reader, name)}
            ids = await reader.revised_ids(name, after_id=-1, limit=_PAGE_ROWS)
            contents = await reader.earlier_items(name, ids, changed_since_ns=0, after=(0, 0))
            earlier |= _all_words(revision.fields for _, revision in contents)
    return entries, earlier


async def _words_of(reader: Reader, key: Thing) -> set[str]:
    source, kind, name = key
    match kind:
        case "item":
            return _all_words(item.fields for item in await reader.items(source, [int(name)]))
        case "document":
            document = await reader.document(source, name)
            return set() if document is None else _all_words([document.fields])
        case _:
            return set()  # profiles are not searched


async def _find(index: SearchIndex, word: str) -> Sequence[Thing]:
    query = SearchQuery(terms=(SearchTerm(word),))
    return await index.find(query, source=None, order=SearchOrder.TIME, limit=FOUND_MAX)


def _all_words(bodies: Iterable[Mapping[str, Any]]) -> set[str]:
    return {word for fields in bodies for word in _words(f"{title_of(fields)}\n{text_of(fields)}")}


def _words(text: str) -> set[str]:
    """The words of a text without their accents, in small letters."""
    plain = "".join(one for one in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(one))
    return set(_WORD.findall(plain))
