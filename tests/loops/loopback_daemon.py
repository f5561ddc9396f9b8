"""What is stopped and killed in the days over loopback? The service of one source, composed as `remora up` does it.

A process of its own with real sockets, threads and signals; only its time comes from the process that started it. The
console and the heartbeat are left out: they look at the clock twice a second, and three days have many seconds.
"""

import os
import random
import socket
import sys
from pathlib import Path

import structlog

from remora.loops.numbered.service import NumberedService
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags, Settings
from remora.operate.jobs.resources import SourceResources
from remora.operate.jobs.runtime import open_numbered
from remora.operate.jobs.service import chosen
from remora.operate.jobs.stopping import run_job
from remora.operate.observe.metrics import Metrics
from remora.operate.observe.recent_meter import RecentMeter
from remora.stores import open_store
from tests.world.lockstep import Follower, LockstepClock, LockstepLoop

NAME = "hackernews"


async def live(settings: Settings, clock: LockstepClock) -> None:
    """The service, until it is cancelled or fails for good."""
    source = settings.sources[NAME]
    metrics = Metrics()
    metrics.watch(NAME, ceiling_interval_ns=source.ceiling_interval_ns)
    meter = RecentMeter(metrics, clock=clock)
    store = open_store(settings.store.url, on_batch=metrics.batch_stored)
    await store.open()
    try:
        resources = SourceResources.alone(NAME, source, store=store, clock=clock, meter=meter)
        async with open_numbered(NAME, resources) as runtime:
            service = NumberedService(
                runtime.source,
                store,
                runtime.collector,
                runtime.governor,
                clock=clock,
                owner=f"{socket.gethostname()}:{os.getpid()}",
                settings=chosen(source, backfill=True),
            )
            await service.run()
    finally:
        await store.close()


def main(folder: Path, channel: int, seed: int) -> None:
    """Wait for the word to begin, then live until a signal."""
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger("debug"),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    random.seed(seed)
    settings = load(Flags(), {}, directory=folder)
    follower = Follower(socket.socket(fileno=channel))
    run_job(live(settings, LockstepClock(follower)), loop_factory=lambda: LockstepLoop(follower))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
