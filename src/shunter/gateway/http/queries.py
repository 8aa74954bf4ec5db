"""The query of a request as a document: each parameter once, whole numbers read as such."""

from __future__ import annotations

from typing import Any, TypeVar

from starlette.requests import Request

from shunter.wire.checked_documents import Document, checked
from shunter.wire.tagged_values import BadDocument

Q = TypeVar("Q", bound=Document)


def query_of(request: Request, expected: type[Q]) -> Q:
    """Return what is asked for, or raise BadDocument that names the parameter."""
    asked: dict[str, Any] = {}
    for name, text in request.query_params.multi_items():
        if name in asked:
            raise BadDocument(name[:64], "found more than once; send it once")
        asked[name] = int(text) if name == "limit" and _is_number(text) else text
    return checked(asked, expected)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10
