"""When did each request really leave? The kernel's time stamps of the packets on loopback, beside the gate's own moments.

Run it as root with `python -m bench.packets`. The gate promises its own moments: no window above the ceiling at the last look
at the clock before the request is written. Between that look and the wire a busy machine can delay a request, so that the
next one follows closer than the interval. A raw socket (AF_PACKET) shows by how much. The kernel stamps each packet when
it leaves; how late this program reads it does not matter.
"""

import argparse
import asyncio
import json
import os
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, cast

from bench.wire import counting_server, excess, send_for
from remora.core.rate.pacing import interval_for
from remora.core.units import MILLISECOND_NS, SECOND_NS

TABLE: Final = ((4.0, 6.0), (100.0, 20.0), (1_000.0, 5.0))
BUFFER_BYTES: Final = 64 << 20
_EVERY_PROTOCOL: Final = 0x0003
_OUTGOING: Final = 4  # on loopback each packet is seen twice: as it leaves and as it arrives
_TIMESTAMP_NS: Final = 35  # SO_TIMESTAMPNS, and the type of its message
_TIMESPEC: Final = struct.Struct("@ll")
_TCP: Final = 6
_ETHERNET_BYTES: Final = 14


@dataclass(frozen=True)
class Gaps:
    """The times between neighbours of one run, seen in one place."""

    count: int
    short: int  # how many are shorter than the interval
    shortest_ns: int
    excess: float  # requests above the bound in the fullest window


def request_to(port: int, frame: bytes) -> bool:
    """Whether a frame of loopback carries the beginning of a request to this port."""
    packet = frame[_ETHERNET_BYTES:]
    if len(packet) < 20 or packet[0] >> 4 != 4 or packet[9] != _TCP:
        return False
    segment = packet[(packet[0] & 15) * 4 :]
    if len(segment) < 20 or int.from_bytes(segment[2:4], "big") != port:
        return False
    return segment[(segment[12] >> 4) * 4 :].startswith(b"GET ")


def capture(port: int) -> None:
    """Note when each request leaves until the standard input ends, then print the moments."""
    left_ns: list[int] = []
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL)) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        raw.setsockopt(socket.SOL_SOCKET, _TIMESTAMP_NS, 1)
        raw.bind(("lo", _EVERY_PROTOCOL))
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([raw, sys.stdin], [], [])
            if raw not in ready:
                break
            frame, told, _flags, address = raw.recvmsg(256, socket.CMSG_SPACE(_TIMESPEC.size))
            if address[2] == _OUTGOING and request_to(port, frame):
                seconds, nanoseconds = next(_TIMESPEC.unpack(data) for _, kind, data in told if kind == _TIMESTAMP_NS)
                left_ns.append(seconds * SECOND_NS + nanoseconds)
    print(json.dumps(left_ns), flush=True)


@contextmanager
def capturing(port: int) -> Iterator[Callable[[], list[int]]]:
    """A function that ends the capture and gives the moments."""
    with subprocess.Popen(  # noqa: S603  our own module
        [sys.executable, "-m", "bench.packets", "--capture", str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines = process.stdout
        assert lines.readline() == "ready\n", "the raw socket could not be opened; are you root?"

        def ended() -> list[int]:
            assert process.stdin is not None
            process.stdin.close()
            return cast("list[int]", json.loads(lines.readline()))

        try:
            yield ended
        finally:
            process.kill()


def gaps(moments_ns: Sequence[int], interval_ns: int) -> Gaps:
    """The gaps between these moments. A nanosecond of rounding is no short gap."""
    between = [later - earlier for earlier, later in pairwise(sorted(moments_ns))]
    return Gaps(
        len(between), sum(gap < interval_ns - 1 for gap in between), min(between), excess(moments_ns, interval_ns)
    )


def measure(rate_per_s: float, for_s: float) -> tuple[Gaps, Gaps]:
    """The gaps of one run: at the gate, and on the wire."""
    interval_ns = interval_for(rate_per_s)
    with counting_server() as (port, _arrivals), capturing(port) as captured:
        departed_ns = asyncio.run(send_for(port, rate_per_s, for_s))
        left_ns = captured()
    assert len(left_ns) == len(departed_ns), f"{len(departed_ns)} requests departed, {len(left_ns)} packets left"
    return gaps(departed_ns, interval_ns), gaps(left_ns, interval_ns)


def main() -> None:
    """Print the table, or be the process that captures."""
    parser = argparse.ArgumentParser(prog="python -m bench.packets")
    parser.add_argument("--capture", type=int, help="only note what leaves for this port")
    options = parser.parse_args()
    if options.capture is not None:
        capture(options.capture)
        return
    print(f"load {os.getloadavg()[0]:.1f}")
    print(
        "| Pace | Gaps | Shorter than the interval, gate | wire | Shortest, gate | wire | Over the bound, gate | wire |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for rate_per_s, for_s in TABLE:
        gate, wire = measure(rate_per_s, for_s)
        print(
            f"| {rate_per_s:,g}/s | {gate.count:,} | {gate.short} | {wire.short} "
            f"| {gate.shortest_ns / MILLISECOND_NS:.2f} ms | {wire.shortest_ns / MILLISECOND_NS:.2f} ms "
            f"| {gate.excess:+.2f} | {wire.excess:+.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
