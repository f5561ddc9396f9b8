"""How can a client reach the simulated world over a real socket? The provider listens on loopback.

`serve` starts it and returns a `ServerHandle`; `python -m remora.sim.server` runs it as a process of its own and prints
one line of JSON with the port. Tests control the world under `/_sim/`: see `Administration`.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import ssl
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import parse_qs, urlsplit

import msgspec

from remora.core.errors import ConfigurationError
from remora.sim.faults import NO_FAULTS, Faults, load_faults, parse_faults
from remora.sim.listed import Archive, ArchiveSettings
from remora.sim.provider import Provider
from remora.sim.replies import NOT_FOUND, Answer, ok
from remora.sim.wire import Admin, ProviderProtocol, Request
from remora.sim.world import World, WorldSettings

_BACKLOG: Final = 1_024


class WorldTime:
    """The world's own time. It begins at the world's start and can run faster than real time or stop."""

    def __init__(self, start_ns: int, speed: float) -> None:
        if speed < 0:
            raise ConfigurationError(f"the speed is {speed}", hint="write 1 for real time, 0 to make time stand still")
        self._speed = speed
        self._from_real_ns = time.monotonic_ns()
        self._from_world_ns = start_ns

    def now_ns(self) -> int:
        elapsed_ns = time.monotonic_ns() - self._from_real_ns
        return self._from_world_ns + (elapsed_ns if self._speed == 1 else int(elapsed_ns * self._speed))

    def set_speed(self, speed: float) -> None:
        """Run at this speed from now on, without a jump."""
        self._from_world_ns, self._from_real_ns, self._speed = self.now_ns(), time.monotonic_ns(), speed


class Administration:
    """The requests with which tests control the world. None is logged as an arrival or counted by the limit.

    GET /_sim/world      now_ns, max_id, arrivals, streams_opened
    GET /_sim/arrivals   the log: times_ns (monotonic) and paths
    GET /_sim/dump       every readable item, one body per line; ?first=&last= bound the ids, ?now_ns= the moment
    POST /_sim/faults    replace the faults (JSON)
    POST /_sim/heal      remove all faults; ?key=17 only those of one key
    POST /_sim/speed     ?x=0 stops the world's time
    """

    def __init__(self, provider: Provider, world_time: WorldTime) -> None:
        self._provider = provider
        self._world_time = world_time
        self._pages: dict[tuple[str, str], Callable[[Request, dict[str, str]], Answer]] = {
            ("GET", "/_sim/world"): self._world,
            ("GET", "/_sim/arrivals"): self._arrivals,
            ("GET", "/_sim/dump"): self._dump,
            ("POST", "/_sim/faults"): self._faults,
            ("POST", "/_sim/heal"): self._heal,
            ("POST", "/_sim/speed"): self._speed,
        }

    def __call__(self, request: Request) -> Answer:
        parts = urlsplit(request.target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        page = self._pages.get((request.method, parts.path))
        try:
            return NOT_FOUND if page is None else page(request, query)
        except (ConfigurationError, ValueError) as error:
            return Answer(400, msgspec.json.encode({"error": str(error)}))

    def _world(self, _request: Request, _query: dict[str, str]) -> Answer:
        now_ns = self._provider.now()
        return _json(
            {
                "now_ns": now_ns,
                "max_id": self._provider.world.max_id(now_ns),
                "arrivals": len(self._provider.arrivals),
                "streams_opened": self._provider.streams_opened,
            }
        )

    def _arrivals(self, _request: Request, _query: dict[str, str]) -> Answer:
        log = self._provider.arrivals
        return _json({"times_ns": log.times_ns.tolist(), "paths": log.paths})

    def _dump(self, _request: Request, query: dict[str, str]) -> Answer:
        now_ns = int(query.get("now_ns", self._provider.now()))
        last = int(query["last"]) if "last" in query else None
        bodies = self._provider.world.dump(now_ns, first_id=int(query.get("first", 1)), last_id=last)
        return ok(b"".join([body + b"\n" for _item_id, body in bodies]))

    def _faults(self, request: Request, _query: dict[str, str]) -> Answer:
        self._provider.set_faults(parse_faults(request.body, is_toml=False))
        return _json({})

    def _heal(self, _request: Request, query: dict[str, str]) -> Answer:
        self._provider.heal(query.get("key"))
        return _json({})

    def _speed(self, _request: Request, query: dict[str, str]) -> Answer:
        self._world_time.set_speed(float(query["x"]))
        return _json({"now_ns": self._world_time.now_ns()})


def _json(value: object) -> Answer:
    return ok(msgspec.json.encode(value))


class ServerHandle:
    """A running server."""

    def __init__(
        self,
        server: asyncio.Server,
        provider: Provider,
        connections: set[ProviderProtocol],
        *,
        is_tls: bool = False,
    ) -> None:
        self._scheme = "https" if is_tls else "http"
        self._server = server
        self._connections = connections
        self.provider = provider
        self.host, self.port = server.sockets[0].getsockname()[:2]

    @property
    def origin(self) -> str:
        """The base address of everything, also of `/_sim/` and `/archive/`."""
        return f"{self._scheme}://{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The base address of the numbered source, for a mirror's settings."""
        return f"{self.origin}/v0"

    async def close(self) -> None:
        """Stop listening and end every connection."""
        self._server.close()
        for connection in list(self._connections):
            connection.abort()
        await self._server.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def serve(
    settings: WorldSettings,
    *,
    address: tuple[str, int] = ("127.0.0.1", 0),
    faults: Faults = NO_FAULTS,
    speed: float = 1.0,
    warm: bool = False,
    archive: ArchiveSettings | None = None,
    newest_id: int = 0,
    tls: ssl.SSLContext | None = None,
) -> ServerHandle:
    """Serve a world, and an archive under `/archive/` if its settings are given; port 0 takes any free port.

    Returns once it listens; `warm` makes every body before that. With `newest_id`, time begins when that id is newest.
    """
    world = World(settings)
    world_time = WorldTime(world.moment_of(newest_id), speed)
    provider = Provider(
        world,
        faults,
        now=world_time.now_ns,
        ticks=time.monotonic_ns,
        archive=None if archive is None else Archive(archive),
    )
    if warm:
        provider.warm_up()
    return await listen(provider, Administration(provider, world_time), host=address[0], port=address[1], tls=tls)


async def listen(
    provider: Provider,
    admin: Admin = lambda _: NOT_FOUND,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> ServerHandle:
    """Serve a provider on a socket. It keeps the time source it was made with."""
    connections: set[ProviderProtocol] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: ProviderProtocol(provider, admin, connections), host, port, backlog=_BACKLOG, ssl=tls
    )
    return ServerHandle(server, provider, connections, is_tls=tls is not None)


def _tls(file: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def _arguments(words: list[str]) -> argparse.Namespace:
    defaults = WorldSettings()
    parser = argparse.ArgumentParser(
        prog="python -m remora.sim.server", description="a simulated Hacker News on loopback"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--items", type=int, default=defaults.items)
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--new-per-day", type=float, default=defaults.new_per_day)
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--faults", type=Path)
    parser.add_argument("--conversations", type=int, help="serve an archive of so many conversations as well")
    parser.add_argument("--newest-id", type=int, default=0, help="go on from the moment when this id was the newest")
    parser.add_argument("--tls", type=Path, metavar="PEM", help="speak TLS, with the key and certificates in this file")
    parser.add_argument("--warm", action="store_true", help="make every body before listening")
    parser.add_argument("--until-eof", action="store_true", help="end when standard input ends")
    return parser.parse_args(words)


async def _main(words: list[str]) -> None:
    given = _arguments(words)
    settings = WorldSettings(seed=given.seed, items=given.items, new_per_day=given.new_per_day)
    faults = load_faults(given.faults) if given.faults else NO_FAULTS
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if given.until_eof:
        loop.add_reader(sys.stdin.fileno(), stop.set)
    listening = serve(
        settings,
        address=(given.host, given.port),
        faults=faults,
        speed=given.speed,
        warm=given.warm,
        archive=ArchiveSettings(conversations=given.conversations) if given.conversations else None,
        newest_id=given.newest_id,
        tls=_tls(given.tls) if given.tls else None,
    )
    async with await listening as server:
        print(json.dumps({"port": server.port, "url": server.url, "origin": server.origin}), flush=True)
        await stop.wait()


def main() -> None:
    """Run the server as a process, on uvloop where it is installed."""
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):
        import uvloop  # noqa: PLC0415  optional

        loop_factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_main(sys.argv[1:]))


if __name__ == "__main__":
    main()
