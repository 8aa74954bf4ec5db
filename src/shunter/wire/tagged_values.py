"""Values in JSON: what msgpack has and JSON has not is tagged, at any depth, both ways.

    {"$bytes": "<base64>"}          bytes
    {"$float": "nan"|"inf"|"-inf"}  a number that JSON can't write
    {"$msgpack": "<base64>"}        any other value, as msgpack
    {"$map": {...}}                 a map whose only key happens to be one of these tags
    {"$map": [[key, value], ...]}   a map with keys that are not text

Pure. Spec: docs/spec/http.md.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from typing import Any

import msgspec

from shunter.errors import ProtocolError

MAX_NESTING = 100
"""How deep lists and maps may lie in each other."""


SHOWN_CHARACTERS = 64
"""How much of what was found an error repeats."""


class BadDocument(ProtocolError):
    """A document can't be taken as it is; `field` is the dotted path of what is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field, self.message = field, message

    def under(self, step: object) -> BadDocument:
        """Return the same fault, seen from one level further out."""
        return type(self)(f"{step}.{self.field}" if self.field else str(step), self.message)


def document_of(tagged: Any, field: str) -> bytes:
    """Turn a JSON value into the msgpack document that payloads and results are."""
    try:
        return msgspec.msgpack.encode(untagged(tagged))
    except BadDocument as fault:
        raise fault.under(field) from None


def tagged_document(document: bytes | None) -> Any:
    """Turn a msgpack document into JSON; one that JSON can't show is given as it is, tagged."""
    if document is None:
        return None
    try:
        return tagged(msgspec.msgpack.decode(document))
    except (ValueError, TypeError, RecursionError):
        return {"$msgpack": base64.b64encode(document).decode()}


def tagged(value: Any, depth: int = 0) -> Any:
    """Return a value of msgpack as one of JSON, or raise ValueError where it is too deep."""
    if type(value) in _SAME_IN_BOTH:
        return value
    match value:
        case int():
            return value
        case float():
            return value if math.isfinite(value) else {"$float": str(value)}
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case _ if depth >= MAX_NESTING:
            raise ValueError("nested too deeply")
        case list() | tuple():
            return [tagged(inner, depth + 1) for inner in value]
        case dict():
            return _tagged_map(value, depth + 1)
    return {"$msgpack": base64.b64encode(msgspec.msgpack.encode(value)).decode()}


_SAME_IN_BOTH = frozenset({type(None), bool, str})
"""What most values are, and needs no second look."""


def _tagged_map(value: dict[Any, Any], depth: int) -> Any:
    if not all(isinstance(key, str) for key in value):
        return {"$map": [[tagged(k, depth), tagged(v, depth)] for k, v in value.items()]}
    written = {key: tagged(inner, depth) for key, inner in value.items()}
    is_tag = len(written) == 1 and next(iter(written)) in _UNTAGGED
    return {"$map": written} if is_tag else written


def untagged(value: Any, depth: int = 0) -> Any:
    """Return a value of JSON as one of msgpack, or raise BadDocument."""
    if type(value) in _SAME_IN_BOTH:
        return value
    match value:
        case float():
            return value
        case int():
            if -(2**63) <= value < 2**64:
                return value
            found = shown(value)
            raise BadDocument("", f"found {found}; send a whole number of 64 bits, or text")
        case _ if depth >= MAX_NESTING:
            raise BadDocument("", f"nested too deeply; send at most {MAX_NESTING} levels")
        case list():
            return [_within(place, inner, depth + 1) for place, inner in enumerate(value)]
    if len(value) == 1:
        ((tag, inner),) = value.items()
        if read := _UNTAGGED.get(tag):
            try:
                return read(inner, depth + 1)
            except BadDocument as fault:
                raise fault.under(tag) from None
    return {key: _within(key, inner, depth + 1) for key, inner in value.items()}


def _within(step: object, value: Any, depth: int) -> Any:
    try:
        return untagged(value, depth)
    except BadDocument as fault:
        raise fault.under(str(step)[:SHOWN_CHARACTERS]) from None


def _bytes(text: Any, depth: int = 0) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise BadDocument("", f"found {shown(text)}; send base64 text") from None


def _float(text: Any, depth: int) -> float:
    if text in ("nan", "inf", "-inf"):
        return float(text)
    raise BadDocument("", f'found {shown(text)}; send "nan", "inf" or "-inf"')


def _msgpack(text: Any, depth: int) -> Any:
    try:
        return msgspec.msgpack.decode(_bytes(text))
    except (ValueError, RecursionError):
        raise BadDocument("", "found bytes that are not one msgpack value; send one") from None


def _map(inner: Any, depth: int) -> dict[Any, Any]:
    if isinstance(inner, dict):
        return {key: _within(key, value, depth) for key, value in inner.items()}
    try:
        return {
            _frozen(untagged(key, depth)): _within(place, value, depth)
            for place, (key, value) in enumerate(inner)
        }
    except (TypeError, ValueError):
        raise BadDocument("", "found what is no map; send an object or [[key, value]]") from None


def _frozen(key: Any) -> Any:
    return tuple(map(_frozen, key)) if isinstance(key, list) else key


_UNTAGGED: dict[str, Callable[[Any, int], Any]] = {
    "$bytes": _bytes,
    "$float": _float,
    "$map": _map,
    "$msgpack": _msgpack,
}


def shown(value: Any) -> str:
    """Write what was found, for an error."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = msgspec.json.encode(value).decode() if not isinstance(value, int) else str(value).lower()
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
