"""Which providers need no declaration? Presets: a whole declaration under one name, or a plug-in of another package."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from remora.contracts.plugin import SourcePlugin
from remora.sources import hackernews
from remora.sources.numbered import Reading
from remora.sources.plugins import plugin_named, plugin_names


class Preset(msgspec.Struct, frozen=True):
    """A declaration under one name. `declares` has the shape of the file; an owner may not write these keys."""

    kind: str
    url: str
    ceiling: str
    declares: Mapping[str, Any] = msgspec.field(default_factory=dict)
    reading: Reading | None = None  # None: by the declared paths
    stream_hosts: tuple[str, ...] = ()  # other hosts of the provider that a stream may be redirected to
    plugin: SourcePlugin | None = None  # makes the source; then nothing is declared


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


def preset_named(name: str) -> Preset | None:
    """The preset with this name: one of ours, or a plug-in, which is imported here. None: there is none."""
    if name in PRESETS:
        return PRESETS[name]
    plugin = plugin_named(name)
    if plugin is None:
        return None
    kind = "numbered" if plugin.capabilities.newest_id else "listed"
    return Preset(kind, plugin.url, plugin.ceiling, plugin=plugin)


def is_preset(name: str) -> bool:
    """Whether there is such a preset. Imports no plug-in."""
    return name in PRESETS or name in plugin_names()


def preset_names() -> str:
    """All presets, for a sentence. Imports no plug-in."""
    return ", ".join(sorted({*PRESETS, *plugin_names()}))
