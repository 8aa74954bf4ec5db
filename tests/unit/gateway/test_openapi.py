"""The OpenAPI document says what is served."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shunter.gateway.http.openapi import OPERATIONS, Operation, openapi_document
from shunter.net.web.refusals import CODES, CONFLICTS
from shunter.wire.documents import JobDocument

DOCUMENT: dict[str, Any] = json.loads(json.dumps(openapi_document("1")))
SPEC = (Path(__file__).parents[3] / "docs" / "spec" / "http.md").read_text(encoding="utf-8")


def inner(value: Any) -> Iterator[tuple[str, Any]]:
    for key, below in value.items() if isinstance(value, dict) else enumerate(value):
        yield key, below
        if isinstance(below, dict | list):
            yield from inner(below)


def test_every_reference_leads_somewhere() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    names = {str(value).rpartition("/")[2] for key, value in inner(DOCUMENT) if key == "$ref"}

    assert {"JobDocument", "ErrorDocument", "JobRequest"} <= names <= schemas.keys()


def test_patterns_are_written_for_json_schema() -> None:
    patterns = [value for key, value in inner(DOCUMENT) if key == "pattern"]

    assert patterns
    assert all(pattern.endswith("$") and r"\Z" not in pattern for pattern in patterns)


def test_unknown_fields_are_forbidden_in_what_is_sent() -> None:
    assert DOCUMENT["components"]["schemas"]["JobRequest"]["additionalProperties"] is False


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_every_operation_is_specified(operation: Operation) -> None:
    assert f"`{operation.method} {operation.path}`" in SPEC


@pytest.mark.parametrize("code", sorted({*CODES.values(), *CONFLICTS.values()}))
def test_every_code_is_specified(code: str) -> None:
    assert re.search(rf"^\| \d{{3}} \| `{code}` \|", SPEC, re.MULTILINE)


@pytest.mark.parametrize("field", JobDocument.__struct_fields__)
def test_every_field_of_the_job_document_is_specified(field: str) -> None:
    assert f"`{field}`" in SPEC
