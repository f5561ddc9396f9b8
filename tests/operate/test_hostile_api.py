"""Does the read API keep to its own OpenAPI document, whatever is asked? Requests are made up from it, right and wrong ones."""

from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode

from remora.operate.console import api
from remora.operate.console.api_description import API, Endpoint
from remora.operate.console.read_allowance import ReadAllowance
from tests.library import CHATS, NEWS, console_in_a_thread

pytestmark = [pytest.mark.slow]

EXAMPLES = 6  # of each address, of right and of wrong requests
# What is told about every answer: no error of the server, a declared status, a declared type and a declared form.
CHECKS = [
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_schema_conformance,
]
FEW = settings(
    max_examples=EXAMPLES,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def console_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Schemathesis asks and waits."""
    path = tmp_path_factory.mktemp("library") / "library.db"
    with console_in_a_thread(path, allowance=ReadAllowance(burst=10**6)) as url:
        yield url


@pytest.mark.parametrize("endpoint", api.ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_no_request_breaks_the_api_and_every_answer_has_its_declared_form(endpoint: Endpoint, console_url: str) -> None:
    schema = schemathesis.openapi.from_url(f"{console_url}{API}/openapi.json")
    operation = schema[API + endpoint.path]["GET"]
    known = {"source": CHATS if "document" in endpoint.path else NEWS} if "{source}" in endpoint.path else None
    statuses: set[int] = set()
    with requests.Session() as session:

        def ask(case: Case[Any]) -> None:
            statuses.add(case.call_and_validate(base_url=console_url, session=session, checks=CHECKS).status_code)

        FEW(given(case=operation.as_strategy())(ask))()
        if any(each.type == "integer" or each.is_required for each in endpoint.parameters):
            # Elsewhere every text is a right one.
            FEW(given(case=operation.as_strategy(GenerationMode.NEGATIVE))(ask))()
        if known is not None:
            FEW(given(case=operation.as_strategy(path_parameters=known))(ask))()
    assert statuses <= {200, 400, 404}
