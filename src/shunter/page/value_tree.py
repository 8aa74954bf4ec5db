"""A payload or a result, as a tree that people can read. Pure, and bounded whatever is in it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from shunter.model.document import sealed_data_at
from shunter.page.figures import bytes_text
from shunter.shown_text import shown

MOST_NODES = 500
MOST_CHARACTERS = 2000
MOST_DEPTH = 12
MOST_BYTES = 1 << 20
"""A document that is larger is not opened for people: it is said how large it is."""


class ValueNode(Struct, frozen=True):
    """One value: its name in what it is part of, its kind, its text, and what is in it."""

    name: str
    kind: str
    text: str
    inner: tuple[ValueNode, ...] = ()
    left_out: int = 0


class ValueTree(Struct, frozen=True):
    """A document: `note` says why it is not shown, or that it is shown in part."""

    size: int
    root: ValueNode | None = None
    note: str = ""


def value_tree(document: bytes | None) -> ValueTree | None:
    """Read a document; None if there is none."""
    if document is None:
        return None
    size = len(document)
    if sealed_data_at(document) is not None:
        return ValueTree(size, note=f"encrypted, {bytes_text(size)}")
    if size > MOST_BYTES:
        return ValueTree(size, note=f"{bytes_text(size)}: too large to be shown here")
    try:
        value = msgspec.msgpack.decode(document)
    except (ValueError, RecursionError):
        return ValueTree(size, note=f"{bytes_text(size)} that are no msgpack document")
    room = [MOST_NODES]
    root = _node("", value, 0, room)
    return ValueTree(size, root, "shown in part" if room[0] <= 0 else "")


def _node(name: str, value: Any, depth: int, room: list[int]) -> ValueNode:
    room[0] -= 1
    match value:
        case dict():
            return _branch(
                name, "map", [(_brief(key), it) for key, it in value.items()], depth, room
            )
        case list() | tuple():
            return _branch(
                name, "list", [(str(at), it) for at, it in enumerate(value)], depth, room
            )
        case str():
            return ValueNode(name, "text", _cut(value))
        case bytes():
            return ValueNode(
                name, "bytes", f"{bytes_text(len(value))}: {_cut(value[:64].hex(' '))}"
            )
        case bool() | None:
            return ValueNode(name, "word", {True: "true", False: "false", None: "null"}[value])
        case int() | float():
            return ValueNode(name, "number", repr(value)[:MOST_CHARACTERS])
    return ValueNode(name, "other", _cut(repr(value)))


def _branch(
    name: str, kind: str, parts: list[tuple[str, Any]], depth: int, room: list[int]
) -> ValueNode:
    one, many = ("entry", "entries") if kind == "map" else ("item", "items")
    text = f"{len(parts)} {one if len(parts) == 1 else many}"
    inner: list[ValueNode] = []
    if depth < MOST_DEPTH:
        for part, value in parts:
            if room[0] <= 0:
                break
            inner.append(_node(part, value, depth + 1, room))
    return ValueNode(name, kind, text, tuple(inner), len(parts) - len(inner))


def _brief(key: Any) -> str:
    text = key if isinstance(key, str) else repr(key)
    return shown(text[:120]) + ("…" if len(text) > 120 else "")


def _cut(text: str) -> str:
    if len(text) <= MOST_CHARACTERS:
        return shown(text)
    return f"{shown(text[:MOST_CHARACTERS])}… ({len(text):,} characters)"
