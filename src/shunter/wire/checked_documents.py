"""Documents that came as JSON, checked against structs: what is wrong is named with its field.

The structs are the one list of fields. Their annotations say what may stand where, and the same
words stand in errors and in the OpenAPI document. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from shunter.model.identity import HOOK_PREFIX, NAME_RULE, RESERVED
from shunter.model.limits import MAX_KEY_LENGTH, RUN_PATTERN, RUN_RULE
from shunter.wire.tagged_values import MAX_NESTING, SHOWN_CHARACTERS, BadDocument, shown

Name = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:@/-]{0,127}\Z", description=NAME_RULE)
]
NewName = Annotated[
    str,
    Meta(
        pattern=rf"^(?!{HOOK_PREFIX})[A-Za-z0-9][A-Za-z0-9_.:@/-]{{0,127}}\Z",
        description=f"{NAME_RULE}; {RESERVED}",
    ),
]
"""A name that somebody gives: to a job, or to a type that a worker does."""

Text = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_KEY_LENGTH, description=f"1 to {MAX_KEY_LENGTH} characters"),
]


RunName = Annotated[str, Meta(max_length=MAX_KEY_LENGTH, pattern=RUN_PATTERN, description=RUN_RULE)]


UNSHOWN = {"secret"}
"""Fields whose values are for nobody's log, also where they are wrong."""


class Document(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The shape that all documents share."""


class NotJson(BadDocument):
    """The text is not JSON at all."""


def parsed(text: bytes) -> Any:
    """Read JSON, or raise NotJson; a key that stands twice is a fault, as readers would differ."""
    try:
        document = msgspec.json.decode(text)
        json.loads(text, object_pairs_hook=_without_doubles, parse_int=len, parse_float=len)
        return document
    except RecursionError:
        raise NotJson("", f"nested too deeply; send at most {MAX_NESTING} levels") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotJson("", f"the body is not JSON ({error}); send one JSON object") from None


def _without_doubles(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise NotJson("", f"found the key {shown(double)} twice in one object; send it once")


D = TypeVar("D", bound=Document)

_PLACE = re.compile(r"(?P<fault>.*?)(?: - at `\$(?P<path>[^`]*)`)?\Z", re.DOTALL)
_NAMED = re.compile(r"Object (?P<what>contains unknown|missing required) field `(?P<name>.*)`\Z")


def checked(document: Any, expected: type[D]) -> D:
    """Take a parsed document for the given one, or raise BadDocument that names the field."""
    while True:
        try:
            return msgspec.convert(document, expected)
        except msgspec.ValidationError as error:
            place = _PLACE.match(str(error))
            assert place is not None
            fault, path = place["fault"], (place["path"] or "").lstrip(".")
            if not _made_whole(fault, path, document):
                raise _fault(fault, path, document, expected) from None


def _made_whole(fault: str, path: str, document: Any) -> bool:
    """Write 5.0 as 5 where a whole number is wanted: JSON does not tell them apart."""
    *outer, last = path.split(".")
    if not fault.startswith("Expected `int"):
        return False
    holders = [document]
    for step in outer:
        name, in_list, _ = step.partition("[")
        holders = [held[name] for held in holders if isinstance(held, dict) and name in held]
        if in_list:
            holders = [item for held in holders if isinstance(held, list) for item in held]
    is_changed = False
    for held in holders:
        found = held.get(last) if isinstance(held, dict) else None
        if isinstance(found, float) and found.is_integer():
            held[last] = int(found)
            is_changed = True
    return is_changed


def _fault(fault: str, path: str, document: Any, expected: type[Document]) -> BadDocument:
    rules = rules_of(expected)
    path = re.sub(r"\[[^]]*\]", "", path)  # of a list it is enough to know which one
    if named := _NAMED.match(fault):
        prefix = f"{path}." if path else ""
        field = prefix + named["name"][:SHOWN_CHARACTERS]
        if named["what"] == "missing required":
            return BadDocument(field, f"missing; send {rules[field]}")
        known = ", ".join(
            rule.removeprefix(prefix)
            for rule in rules
            if rule.startswith(prefix) and "." not in rule.removeprefix(prefix)
        )
        return BadDocument(field, f"not a field of this document; send any of {known}")
    is_in_list = False
    for step in path.split(".") if path else ():
        is_in_list = is_in_list or isinstance(document, list)
        if not is_in_list:
            document = document.get(step) if isinstance(document, dict) else None
    send = rules.get(path, "a JSON object")
    found = "something else in one of the list" if is_in_list else shown(document)
    if path in UNSHOWN:
        found = "what is not shown here"
    return BadDocument(path, f"found {found}; send {send}")


def rules_of(expected: type[Document], prefix: str = "") -> dict[str, str]:
    """Say for each field of a document, by its dotted path, what to send."""
    rules: dict[str, str] = {}
    for name, hint in get_type_hints(expected, include_extras=True).items():
        for part in _parts(hint):
            if isinstance(part, type) and issubclass(part, Document):
                inner = rules_of(part, f"{prefix}{name}.")
                fields = ", ".join(key.removeprefix(f"{prefix}{name}.") for key in inner)
                rules.setdefault(prefix + name, f"an object with {fields}")
                rules |= inner
            for note in getattr(part, "__metadata__", ()):
                rules.setdefault(prefix + name, note.description)
    return rules


def _parts(hint: Any) -> Iterator[Any]:
    """Yield a type and all that it is made of, the outermost first."""
    yield hint
    for part in get_args(hint):
        yield from _parts(part)
