"""Does the other side speak what the address promises? TLS where it begins with https, plain HTTP where it begins with http."""

import ssl
from typing import Final

from remora.core.verdict import Misfit

# How OpenSSL says that an answer to its greeting is no TLS; the words differ from version to version.
_NO_TLS: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"}
)
# A TLS record that holds an alert, of any version of TLS: what a server answers to a request in plain text.
_TLS_ALERT: Final = b"\x15\x03"


def misfit_of(error: BaseException) -> Misfit | None:
    """What a failed TLS handshake tells; None if it tells nothing, or there was none."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Misfit.UNTRUSTED
    if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
        return Misfit.NO_TLS
    return None


def misfit_in(answer: bytes | memoryview) -> Misfit | None:
    """What an answer tells that is no HTTP."""
    return Misfit.ONLY_TLS if bytes(answer[:2]) == _TLS_ALERT else None
