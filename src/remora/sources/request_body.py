"""What does a request with a body send? The owner's JSON, with its placeholders filled in.

A text that is a placeholder and nothing else becomes the value itself: "{size}" becomes a number. Inside a longer text,
braces stay as they are, because query languages use them, too. A value that is JSON text itself is sent as it is.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from remora.core.errors import ConfigurationError

Values = Mapping[str, str | int | msgspec.Raw | None]


class Method(StrEnum):
    """How a request is sent."""

    GET = "GET"
    POST = "POST"


def read_table(value: object, where: str) -> dict[str, Any]:
    """A table that can be sent as JSON."""
    if not isinstance(value, dict):
        raise ConfigurationError(f"{where} is not a table", hint='write body = { name = "value" }')
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"{where} holds a value that JSON does not have", hint="write dates and the like as texts"
        ) from None
    return value


JsonTable = Annotated[dict[str, Any], msgspec.Meta(extra={"reads": read_table})]


def check_body(method: Method, body: Mapping[str, Any] | None, where: str, example: str) -> None:
    """A POST needs a body, and only a POST has one."""
    if method is Method.POST and body is None:
        raise ConfigurationError(f"{where}.method is POST, but there is no {where}.body", hint=f"write {example}")
    if method is Method.GET and body is not None:
        raise ConfigurationError(
            f"{where}.body is given, but {where}.method is GET", hint='write method = "POST", or leave body out'
        )


def holds(body: object, placeholder: str) -> bool:
    """Whether a placeholder is somewhere in a body."""
    match body:
        case dict():
            return any(holds(inner, placeholder) for inner in body.values())
        case list():
            return any(holds(inner, placeholder) for inner in body)
        case _:
            return body == f"{{{placeholder}}}"


def filled(body: Mapping[str, Any], values: Values) -> bytes:
    """The body as it is sent. A field whose placeholder has no value is left out, as the cursor of a first page."""
    return msgspec.json.encode(_fill(dict(body), values))


def _fill(part: Any, values: Values) -> Any:
    match part:
        case dict():
            return {name: _fill(inner, values) for name, inner in part.items() if not _is_left_out(inner, values)}
        case list():
            return [_fill(inner, values) for inner in part if not _is_left_out(inner, values)]
        case str() if (name := _placeholder(part, values)) is not None:
            return values[name]
        case _:
            return part


def _is_left_out(part: object, values: Values) -> bool:
    if isinstance(part, list) and part:  # of nothing but such placeholders
        return all(_is_left_out(inner, values) for inner in part)
    name = _placeholder(part, values)
    return name is not None and values[name] is None


def _placeholder(part: object, values: Values) -> str | None:
    if not isinstance(part, str) or not part.startswith("{") or not part.endswith("}"):
        return None
    name = part[1:-1]
    return name if name in values else None
