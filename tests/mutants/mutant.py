"""What is a planted bug? One replacement in production code, what it breaks, and in which worlds it can show."""

from dataclasses import dataclass

LEDGER, GATE, LAW, LIVE, RESCAN = "ledger", "gate", "law", "live", "rescan"
RUNS, PERSISTENCE, SHARING, READOUT = "runs", "persistence", "sharing", "readout"
SEARCH, FEED, VERIFY, IMPORT = "search", "feed", "verify", "import"
NUMBERED = "shape=hackernews,numbered"
NEWS = "shape=hackernews"
LISTED = "shape=offset,cursor,page,link"
CHANNELS = "channels=2,3,4,5"
ROTATED = "rotates_every_s=2400.0,7200.0"
LIMITED = "limit=token_bucket,sliding_window,fixed_window,heat"
FILE = "store=sqlite"
MEMORY = "store=memory"
SHARED = "processes=2,3"
SEARCHED = "searched=True"
FOLLOWED = "readers=1,2,3"
KEPT_SMALL = "kept_small=True"
VERIFIED = "verified=True"
IMPORTED = "uses=import"
SECOND = "uses=second source"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug."""

    room: str
    file: str  # below src/remora
    before: str
    after: str
    breaks: str
    where: tuple[str, ...] = ()
    guard: str = ""  # which other layer makes it harmless in a world
    seen_by: str = ""  # where a guard makes it harmless: the test that fails because of it
    also: tuple[tuple[str, str, str], ...] = ()  # file, before and after of the layer that would make it harmless
