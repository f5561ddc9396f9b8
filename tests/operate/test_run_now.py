"""Is an operator who asks for a run told what really happens next?"""

from remora.core.units import SECOND_NS
from remora.operate.config.settings import Settings, SourceKind, SourceSettings
from remora.operate.jobs.operator import ServiceOperator
from remora.operate.jobs.steering import Steering
from remora.operate.observe.timeline import Timeline
from remora.sim.clock import SimClock, run
from remora.stores.memory import MemoryStore


async def no_notice() -> str:
    return ""


def operator_of(clock: SimClock, *, secret: str | None = None) -> ServiceOperator:
    """A service with one list between two runs, whose secret is missing because of this."""
    store = MemoryStore()
    chats = SourceSettings(
        kind=SourceKind.LISTED, url="http://chats.example", ceiling_interval_ns=SECOND_NS, in_flight=1
    )
    steering = Steering({}, {"chats": "chats"}, store=store, clock=clock)
    operator = ServiceOperator(
        Settings(sources={"chats": chats}), store, steering, Timeline(), test_notifications=no_notice
    )
    operator.run_now_by_source["chats"] = lambda: True
    operator.missing_secrets["chats"] = lambda: secret
    return operator


def test_a_run_that_is_asked_for_during_a_pause_is_not_said_to_begin_now() -> None:
    async def story(clock: SimClock) -> None:
        operator = operator_of(clock)
        await operator.pause("chats")
        assert await operator.run_now("chats") == "chats is paused; a run of it goes on as soon as you resume it"
        await operator.resume("chats")
        assert await operator.run_now("chats") == "a run of chats begins now"

    run(story)


def test_a_run_that_is_asked_for_without_a_secret_is_not_said_to_begin_now() -> None:
    async def story(clock: SimClock) -> None:
        told = await operator_of(clock, secret="the command failed").run_now("chats")
        assert told == "a run of chats begins as soon as its secret can be read: the command failed"

    run(story)
