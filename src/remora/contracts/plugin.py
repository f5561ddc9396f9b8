"""What must a package offer to bring a source of its own? One `SourcePlugin`, named by an entry point."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from remora.contracts.source import Capabilities, Source, Transport


@dataclass(frozen=True, slots=True)
class SourceSetup:
    """What a plug-in gets when one of its sources is opened. Its repr shows no headers and no options."""

    name: str  # the source's name in remora.toml, and in the ledger
    url: str  # the address that all paths are added to, without a slash at its end
    transport: Transport  # sends one request for one permit, signed with the owner's credential
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # to be sent with every request
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)  # the plug-in's own settings, unchecked


@dataclass(frozen=True, slots=True)
class SourcePlugin:
    """A kind of source that another package brings. An entry point of the group `remora.sources` names it.

    `make` is called once for each source that is opened. It raises `ConfigurationError` for options that it does not
    understand. `capabilities` must be those of the source: they are needed before it is opened.
    """

    make: Callable[[SourceSetup], Source]
    capabilities: Capabilities
    url: str = ""  # the provider's address; empty: the owner must write one
    ceiling: str = "60/min"  # unless the owner writes another
    defaults: Mapping[str, Any] = field(default_factory=dict)  # further settings, in the shape of remora.toml
