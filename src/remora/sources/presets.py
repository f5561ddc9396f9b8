"""Which providers need no declaration? Presets: a whole declaration under one name, and how its bodies are read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from remora.sources import hackernews
from remora.sources.numbered import Reading


@dataclass(frozen=True, slots=True)
class Preset:
    """A declaration that comes with Remora. `declares` has the shape of the file; an owner may not write these keys."""

    kind: str
    url: str
    ceiling: str
    declares: Mapping[str, Any] = field(default_factory=dict)
    reading: Reading | None = None  # None: by the declared paths
    stream_hosts: tuple[str, ...] = ()  # other hosts of the provider that a stream may be redirected to


PRESETS: Final[Mapping[str, Preset]] = {
    "hackernews": Preset(
        kind="numbered",
        url=hackernews.BASE_URL,
        ceiling="250/s",
        declares=hackernews.DECLARED,
        reading=hackernews.HackerNewsReading(),
        stream_hosts=hackernews.STREAM_HOSTS,
    ),
}
