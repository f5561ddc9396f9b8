"""Is the ceiling kept on the wire, by the kernel's own time stamps?"""

import os
import socket

import pytest

from bench.packets import measure, request_to

LOOPBACK = bytes(12) + b"\x08\x00"


def frame(payload: bytes, *, port: int = 8_080, protocol: int = 6) -> bytes:
    ip = b"\x45" + bytes(8) + bytes([protocol]) + bytes(10)
    tcp = b"\xc0\x00" + port.to_bytes(2, "big") + bytes(8) + b"\x50" + bytes(7)
    return LOOPBACK + ip + tcp + payload


@pytest.mark.parametrize(
    "seen, is_request",
    [
        (frame(b"GET /newest HTTP/1.1"), True),
        (frame(b""), False),  # an acknowledgement
        (frame(b"GET / HTTP/1.1", port=80), False),
        (frame(b"GET / HTTP/1.1", protocol=17), False),
        (frame(b"HTTP/1.1 200 OK"), False),
        (LOOPBACK, False),
        (b"", False),
    ],
)
def test_only_the_beginning_of_a_request_to_the_port_counts(seen: bytes, is_request: bool) -> None:
    assert request_to(8_080, seen) is is_request


def may_capture() -> bool:
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    except (AttributeError, OSError):
        return False
    return True


@pytest.mark.slow
@pytest.mark.skipif(not may_capture(), reason=f"user {os.getuid()} may not open a raw socket here")
def test_no_window_on_the_wire_exceeds_the_bound_by_more_than_one_request() -> None:
    gate, wire = measure(100.0, 1.0)
    assert gate.excess <= 0.001
    assert wire.excess <= 1.0
