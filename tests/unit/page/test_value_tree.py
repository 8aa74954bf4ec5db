"""Payloads and results as trees, bounded whatever is in them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shunter.page.value_tree import MOST_NODES, ValueNode, value_tree


def tree(value: Any) -> Any:
    return value_tree(msgspec.msgpack.encode(value))


def nodes(node: ValueNode) -> int:
    return 1 + sum(map(nodes, node.inner))


def test_a_value_is_shown_with_names_and_kinds() -> None:
    root = tree({"a": [1, None, True], 3: b"\x01\x02"}).root
    assert [(it.name, it.kind, it.text) for it in root.inner] == [
        ("a", "list", "3 items"),
        ("3", "bytes", "2 B: 01 02"),
    ]
    assert [it.text for it in root.inner[0].inner] == ["1", "null", "true"]


@pytest.mark.parametrize(
    "value", [list(range(100_000)), {str(n): n for n in range(5000)}, [[[[0] * 50] * 50] * 50]]
)
def test_a_large_value_is_shown_in_part(value: Any) -> None:
    found = tree(value)
    assert nodes(found.root) <= MOST_NODES + 1
    assert found.note == "shown in part"
    assert found.root.left_out > 0 or found.root.inner[0].left_out > 0


def test_a_deep_value_ends_somewhere() -> None:
    value: Any = 1
    for _ in range(200):
        value = [value]
    assert nodes(tree(value).root) < 20


def test_what_steers_a_terminal_is_shown_and_never_sent() -> None:
    assert tree("\x1b[2J\u202e").root.text == "\\x1b[2J\\u202e"


def test_what_is_encrypted_large_or_broken_says_so() -> None:
    sealed = msgspec.msgpack.encode(msgspec.msgpack.Ext(0x53, b"secret"))
    for document, note in (
        (sealed, "encrypted"),
        (b"\x93\x01", "no msgpack document"),
        (msgspec.msgpack.encode(b"x" * (1 << 21)), "too large"),
    ):
        found = value_tree(document)
        assert found is not None
        assert found.root is None
        assert note in found.note
    assert value_tree(None) is None
