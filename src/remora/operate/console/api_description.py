"""How does a program learn what the read API offers? From an OpenAPI document that is made from the table of endpoints."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from remora.operate.console.api_answers import Answer, ErrorAnswer
from remora.version import __version__

API: Final = "/api/v1"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A part of the path or of the query."""

    name: str
    what: str
    place: str = "query"
    type: str = "string"
    maximum: int | None = None
    default: int | str | None = None
    is_required: bool = False
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of the API."""

    path: str
    name: str  # the method that answers, and the operation's name in the document
    what: str
    answer: type[Answer]
    parameters: tuple[Parameter, ...] = ()
    is_heavy: bool = False


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The OpenAPI document."""
    answers = [*{endpoint.answer for endpoint in endpoints}, ErrorAnswer]
    _, schemas = msgspec.json.schema_components(answers, ref_template="#/components/schemas/{name}")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Remora: read a mirror",
            "version": __version__,
            "description": "Reads the mirror only; the source is never asked. Every answer has an ETag.",
        },
        # Relative to the document, so that it is right below a path of a reverse proxy, too.
        "servers": [{"url": "../.."}],
        "security": [{}, {"token": []}],
        "paths": {API + endpoint.path: {"get": _operation(endpoint)} for endpoint in endpoints},
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}}
    schema = {"$ref": f"#/components/schemas/{endpoint.answer.__name__}"}
    responses = {
        "200": {"description": "found", "content": {"application/json": {"schema": schema}}},
        "304": {"description": "the same as the ETag in If-None-Match"},
        "400": {"description": "the request cannot be understood", "content": error},
        "401": {"description": "the token is missing", "content": error},
        "404": {"description": "the mirror does not have it", "content": error},
        "503": {"description": "the store does not answer, or the read took too long", "content": error},
    }
    if endpoint.is_heavy:
        responses["429"] = {"description": "too many heavy reads; see Retry-After", "content": error}
    return {
        "operationId": endpoint.name,
        "summary": endpoint.what,
        "parameters": [_parameter(each) for each in endpoint.parameters],
        "responses": dict(sorted(responses.items())),
    }


def _parameter(told: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": told.type}
    if told.maximum is not None:
        schema["maximum"] = told.maximum
    if told.default is not None:
        schema["default"] = told.default
    if told.values:
        schema["enum"] = list(told.values)
    return {
        "name": told.name,
        "in": told.place,
        "description": told.what,
        "required": told.place == "path" or told.is_required,
        "schema": schema,
    }
