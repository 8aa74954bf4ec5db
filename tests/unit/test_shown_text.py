"""Control characters are shown as escapes, and everything else stays as it is."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.shown_text import shown, shown_json

CONTROLS = {chr(code) for code in [*range(0x20), *range(0x7F, 0xA0)]} - {"\n", "\t"}
BIDI = {chr(code) for code in [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]}
STEERING = CONTROLS | BIDI

valid_text = st.text(st.characters(codec="utf-8") | st.sampled_from(sorted(STEERING)))
any_text = valid_text | st.text(st.characters(categories=["Cs"]))


def values() -> st.SearchStrategy[object]:
    return st.recursive(
        valid_text | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(valid_text, inner),
        max_leaves=10,
    )


@given(any_text)
def test_nothing_that_steers_a_terminal_is_left(text: str) -> None:
    assert not STEERING & set(shown(text))
    shown(text).encode()  # which no lone surrogate lets pass


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters=sorted(BIDI))))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert shown(text) == shown_json(text) == text


@given(any_text)
def test_what_is_shown_is_shown_but_once(text: str) -> None:
    assert shown(shown(text)) == shown(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),
        ("\x9b2J\x7f", r"\x9b2J\x7f"),
        ("all is well\rnothing", r"all is well\x0dnothing"),
        ("abc\u202edef\u2066", r"abc\u202edef\u2066"),
        ("one\r\n\ttwo\n", "one\n\ttwo\n"),
        ("not UTF-8: \udc9b", r"not UTF-8: \udc9b"),
        ("grüße, 日本, [red], \\x1b", "grüße, 日本, [red], \\x1b"),
    ],
)
def test_the_escapes_are_those_of_python(text: str, said: str) -> None:
    assert shown(text) == said


@given(values(), st.booleans())
def test_json_keeps_its_value(value: object, is_ascii: bool) -> None:
    document = shown_json(json.dumps(value, ensure_ascii=is_ascii, indent=2))

    assert json.loads(document) == value
    assert not STEERING & set(document)


def test_all_that_unicode_calls_control_is_known() -> None:
    found = {chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Cc"}

    assert found - {"\n", "\t"} == CONTROLS
