"""Which headers may an owner send? All but those that the request itself decides, in plain ASCII."""

from collections.abc import Mapping
from typing import Final

from remora.core.errors import ConfigurationError

# Each request writes these itself, or they change how it is sent. A second one breaks it.
OF_THE_REQUEST: Final = frozenset(
    {"host", "content-length", "connection", "transfer-encoding", "te", "trailer", "upgrade", "expect", "keep-alive"}
)
# A cookie is a secret, which `auth` knows how to keep.
_REFUSED: Final = OF_THE_REQUEST | {"cookie"}


def check_headers(headers: Mapping[str, str], where: str) -> None:
    """Refuse headers that cannot be sent, without showing their values."""
    for name, value in headers.items():
        is_plain = name.isascii() and name.replace("-", "").isalnum() and value.isascii() and value.isprintable()
        if not is_plain or name.lower() in _REFUSED:
            raise ConfigurationError(
                f"{where}.headers.{name} cannot be sent", hint="write a plain header name and one line of ASCII text"
            )
