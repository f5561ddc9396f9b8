"""How far does a named reader of the change feed get in a test?"""

from remora.operate.jobs.following import NamedFeed
from remora.read.mirror import MirrorReader
from tests.contract.answers import at


async def read_on(url: str, name: str, *, most: int = 100) -> list[str]:
    """The keys of the changes that a named reader gets, as far as it works on them."""
    keys: list[str] = []
    async with MirrorReader(url) as mirror, NamedFeed(url, name) as feed:
        async for page in feed.pages(mirror, follow=False):
            worked_on = page[:most]
            keys += [change.key for change in worked_on]
            await feed.done(worked_on[-1].position, now_ns=at(50))
            if len(worked_on) < len(page):
                break
    return keys
