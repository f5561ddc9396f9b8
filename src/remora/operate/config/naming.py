"""Which source does a mistake belong to? A section that is refused as a whole does not know its source."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from remora.core.errors import ConfigurationError

_FIRST_NAME: Final = re.compile(r"\w+")


@contextmanager
def naming(where: str, known: Collection[str]) -> Iterator[None]:
    """Put the source in front of a refusal that does not name it. `known`: the keys that a source may have."""
    try:
        yield
    except ConfigurationError as error:
        section, _, rest = where.partition(".")
        source = f"{section}.{rest.partition('.')[0]}"
        if section != "sources" or source in error.message:
            raise
        first = _FIRST_NAME.match(error.message)
        joint = "." if first is not None and first[0] in known else ": "
        raise ConfigurationError(f"{source}{joint}{error.message}", hint=error.hint) from None
