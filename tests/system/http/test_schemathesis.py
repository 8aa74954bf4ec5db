"""What the OpenAPI document promises holds for requests that nobody thought of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from long_runs import examples
from shunter.gateway.http.openapi import OPERATIONS, Operation
from system.http.conftest import Web

EXAMPLES = examples(48)
"""For each operation, of good requests and of bad ones."""


@pytest.fixture(scope="module")
def served(web: Web) -> Any:
    return schemathesis.openapi.from_url(f"{web.raw.base_url}/openapi.json")


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as kept:
        kept.trust_env = False
        yield kept


UNPROMISED = {
    "report": [positive_data_acceptance],
    "signal": [positive_data_acceptance],
    "submit_workflow": [positive_data_acceptance],
    "register": [positive_data_acceptance],
    "put_schedule": [positive_data_acceptance],
    "backfill_schedule": [positive_data_acceptance],
}
"""What the schema does not say: `result` goes with one status and `error` with the other; the
settings list the hosts where workers may be; which names are printable; what jobs of a graph may
say of each other; what a calendar and a zone are; and that a span ends
after it begins."""

GOOD = [(operation, GenerationMode.POSITIVE) for operation in OPERATIONS]
BAD = [(operation, GenerationMode.NEGATIVE) for operation in OPERATIONS
       if operation.body or operation.query]  # fmt: skip


@pytest.mark.parametrize(
    ("operation", "mode"), GOOD + BAD, ids=lambda part: getattr(part, "id", None) or part.value
)
def test_a_request_is_answered_as_promised(
    served: Any, session: requests.Session, operation: Operation, mode: GenerationMode
) -> None:
    described = served[operation.path][operation.method]

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=described.as_strategy(generation_mode=mode))
    def answered_as_promised(case: Any) -> None:
        if mode is GenerationMode.POSITIVE:
            _call_back_here(case.body)
            _say_what_the_schema_leaves_open(case.body)
        case.call_and_validate(session=session, excluded_checks=UNPROMISED.get(operation.id))

    answered_as_promised()


def _say_what_the_schema_leaves_open(body: Any) -> None:
    """Give a job keys with names and printable values, and one way to be unique.

    It waits for none: which jobs there are is not in the schema.
    """
    if isinstance(body, dict):
        body.pop("after", None)
        body.pop("when", None)
        if body.get("keys"):
            body["keys"] = {"tenant": "acme"}
        if body.get("unique"):
            body.pop("unique_key", None)


def _call_back_here(body: Any) -> None:
    """Name a host that may be called back: which ones those are is a setting, not a schema."""
    if isinstance(body, dict) and body.get("callback"):
        body["callback"] = {"url": "http://127.0.0.1:1/x"}
