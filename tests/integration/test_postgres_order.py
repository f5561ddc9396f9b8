"""Does the newest fetch win, whichever process made it, also when it found nothing new?"""

import asyncio

import psycopg
import pytest
from msgspec.structs import replace

from remora.contracts import Outcome
from remora.core.item import Document, User
from remora.core.verdict import Found
from remora.stores.postgres import PostgresStore
from tests.contract.answers import SOURCE, observed, record, record_document, record_user, story
from tests.integration.test_postgres_sharing import several

pytestmark = pytest.mark.postgres


async def test_an_older_fetch_of_another_process_does_not_undo_what_an_unchanged_read_confirmed(
    postgres_url: str,
) -> None:
    async with several(postgres_url, 2) as (one, other):
        await record(one, 1, story(1, text="now"), at_s=1)
        assert await record(one, 1, story(1, text="now"), at_s=10) is Outcome.UNCHANGED
        assert await record(other, 1, story(1, text="before"), at_s=5) is Outcome.STALE
        assert await record(other, 1, story(1, text="later"), at_s=11) is Outcome.CHANGED


async def test_a_new_item_is_told_to_readers_and_its_own_process_knows_its_departure_exactly(postgres_url: str) -> None:
    async with several(postgres_url, 1) as (store,):
        for text, late_ns, outcome in (("now", 500_000, Outcome.NEW), ("before", 200_000, Outcome.STALE)):
            answer = observed(1, Found(story(1, text=text)), started_s=1, done_s=2)
            sent = replace(answer, started_at_ns=answer.started_at_ns + late_ns)
            assert await store.record_many(SOURCE, [sent]) == [outcome]
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT kind, key, change FROM changes").fetchall() == [("item", "1", "new")]


async def test_so_it_is_with_profiles_and_documents(postgres_url: str) -> None:
    now, before = b'{"id":"ada","karma":2}', b'{"id":"ada","karma":1}'
    async with several(postgres_url, 2) as (one, other):
        for at_s in (1, 10):
            await record_user(one, "ada", User("ada", now), at_s=at_s)
            await record_document(one, "ada", Document("ada", now, None), at_s=at_s)
        assert await record_user(other, "ada", User("ada", before), at_s=5) is Outcome.STALE
        assert await record_document(other, "ada", Document("ada", before, None), at_s=5) is Outcome.STALE


@pytest.mark.slow
async def test_two_processes_that_record_the_same_items_at_the_same_moment_keep_the_newer_of_each(
    postgres_url: str,
) -> None:
    ids = range(1, 401)

    async def write(store: PostgresStore, text: str, started_s: float) -> None:
        answers = [observed(n, Found(story(n, text=text)), started_s=started_s, done_s=20) for n in ids]
        await asyncio.gather(*(store.record(SOURCE, answer) for answer in answers))

    async with several(postgres_url, 2) as (one, other):
        await write(one, "now", 1)
        for look in range(5):
            await asyncio.gather(write(one, "now", 3 + 2 * look), write(other, "before", 2 + 2 * look))
        for item_id in ids:
            held = await one.item(SOURCE, item_id)
            assert held is not None
            assert held.body == story(item_id, text="now").body


async def test_what_was_fetched_a_quarter_of_an_hour_ago_is_forgotten(postgres_url: str) -> None:
    async with several(postgres_url, 2) as (one, other):
        for at_s in (1, 2):
            await record(one, 1, story(1), at_s=at_s)
        for at_s in (900, 901):
            await record(other, 3, story(3), at_s=at_s)
    with psycopg.connect(postgres_url) as operator:
        assert operator.execute("SELECT key FROM fetches").fetchall() == [("3",)]
