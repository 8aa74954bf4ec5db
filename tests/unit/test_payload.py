"""How arguments travel, are bound and are checked."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import inspect
import uuid
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from shunter.app import App
from shunter.errors import AppError
from shunter.payload import payload_of, payload_of_parts, result_of

CONTEXT: Any = None

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


class Point(Struct):
    x: int
    y: int


@dataclasses.dataclass
class Size:
    width: int
    height: int


def call(function: Any, payload: bytes) -> Any:
    app = App()
    app.job(name="work")(function)
    return app.run("work", payload, CONTEXT)


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        (payload_of(), None),
        (payload_of(1, 2), [1, 2]),
        (payload_of(a=1), {"a": 1}),
        (payload_of(1, a=2), {"a": 2, "*": [1]}),
    ],
)
def test_a_payload_is_nil_an_array_a_map_or_a_map_with_a_star(payload: bytes, value: Any) -> None:
    assert msgspec.msgpack.decode(payload) == value


@given(st.lists(plain, max_size=4), st.dictionaries(st.text(min_size=1), plain, max_size=4))
def test_a_call_arrives_as_it_was_made(args: list[Any], kwargs: dict[str, Any]) -> None:
    kwargs.pop("*", None)

    def work(*args: Any, **kwargs: Any) -> Any:
        return list(args), kwargs

    assert call(work, payload_of(*args, **kwargs)) == (args, kwargs)


SIGNATURES = {
    "plain": lambda a, b: (a, b),
    "default": lambda a, b=9: (a, b),
    "keyword only": lambda a=1, *, b: (a, b),
    "keyword only with default": lambda a, *, b=9: (a, b),
    "positional only": lambda a, /, b: (a, b),
    "all": lambda a, /, b, *rest, c=9, **more: (a, b, rest, c, more),
    "none": lambda: (),
}


@pytest.mark.parametrize("name", SIGNATURES)
@given(
    st.lists(st.integers(0, 9), max_size=4),
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9), max_size=4),
)
def test_arguments_are_bound_exactly_as_python_binds_them(
    name: str, args: list[int], kwargs: dict[str, int]
) -> None:
    function = SIGNATURES[name]
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        with pytest.raises(AppError, match="handler 'work'"):
            call(function, payload_of(*args, **kwargs))
    else:
        assert call(function, payload_of(*args, **kwargs)) == function(*args, **kwargs)


@pytest.mark.parametrize("value", [b"raw bytes", "text", 5, 2.5, True])
def test_a_payload_of_another_kind_is_the_one_argument(value: Any) -> None:
    assert call(lambda x: x, msgspec.msgpack.encode(value)) == value


def test_arguments_become_what_the_annotations_say() -> None:
    now = datetime.datetime(2026, 1, 2, 3, 4, 5)
    key = uuid.UUID(int=7)

    def work(p: Point, s: Size, at: datetime.datetime, key: uuid.UUID, tags: set[str]) -> Any:
        return p, s, at, key, tags

    expected = (Point(1, 2), Size(3, 4), now, key, {"a"})
    by_order = payload_of(Point(1, 2), Size(3, 4), now, key, ["a"])
    by_name = payload_of(p=Point(1, 2), s=Size(3, 4), at=now, key=key, tags=["a"])

    assert call(work, by_order) == expected
    assert call(work, by_name) == expected
    mixed = payload_of(Point(1, 2), s=Size(3, 4), at=now, key=key, tags=["a"])
    assert call(work, mixed) == expected


def test_a_default_is_the_very_object_that_the_function_has() -> None:
    default: list[int] = [1]

    def work(x: list[int] = default) -> bool:
        return x is default

    assert call(work, payload_of())


def typed(x: int, y: list[int] = [], *, z: Annotated[int, Meta(ge=0)] = 0) -> None: ...  # noqa: B006


def open_ended(x: int, *rest: int, **more: float) -> None: ...


def nested(x: Point) -> None: ...


@pytest.mark.parametrize(
    ("function", "payload", "message"),
    [
        (typed, payload_of("1"), "parameter 'x': Expected `int`, got `str`; found str '1'"),
        (typed, payload_of(x=1.5), "parameter 'x': Expected `int`, got `float`; found float 1.5"),
        (typed, payload_of(1, [1, "2"]), "parameter 'y[1]': Expected `int`, got `str`; found list"),
        (typed, payload_of(1, z=-1), "parameter 'z': Expected `int` >= 0; found int -1"),
        (typed, payload_of(), "parameter 'x' is missing"),
        (typed, payload_of(y=[]), "parameter 'x' is missing"),
        (typed, payload_of(1, x=2), "parameter 'x' was given twice"),
        (typed, payload_of(1, [], 3), "3 positional arguments were given, it takes 2"),
        (typed, payload_of(1, w=2), "it has no parameter 'w'; it has 'x', 'y', 'z'"),
        (open_ended, payload_of(1, 2, "3"), "Expected `int`, got `str`"),
        (open_ended, payload_of(1, w="3"), "Expected `float`, got `str`"),
        (nested, payload_of({"x": 1}), "parameter 'x': Object missing required field `y`"),
        (nested, payload_of({"x": 1, "y": "2"}), "parameter 'x.y': Expected `int`, got `str`"),
        (typed, b"", "the payload is not msgpack"),
        (typed, b"\xc1", "the payload is not msgpack"),
        (typed, b"\x91" * 5000, "the payload is not msgpack"),
        (typed, b"\xa1\xff", "the payload is not msgpack"),
        (typed, msgspec.msgpack.encode({"*": 5}), "the key '*' holds int 5"),
        (typed, msgspec.msgpack.encode({5: 5}), "a keyword is int 5"),
    ],
)
def test_bad_arguments_are_refused_with_handler_parameter_and_reason(
    function: Any, payload: bytes, message: str
) -> None:
    with pytest.raises(AppError) as caught:
        call(function, payload)

    assert str(caught.value).startswith("handler 'work': ")
    assert message in str(caught.value)


@given(st.binary(max_size=60))
def test_no_payload_gets_anything_but_through_or_refused(payload: bytes) -> None:
    with contextlib.suppress(AppError):
        call(lambda x: x, payload)


def test_arguments_that_cannot_be_sent_are_refused_by_the_sender() -> None:
    with pytest.raises(AppError, match=r"these arguments can't be sent: .*object"):
        payload_of(object())


@pytest.mark.parametrize("value", [Point(1, 2), Size(3, 4), {"a": [1]}, None, b"\0"])
def test_what_msgspec_encodes_is_a_result(value: Any) -> None:
    back = msgspec.msgpack.decode(result_of(value), type=type(value))

    assert back == value


@pytest.mark.parametrize("value", [object(), 1 << 70, "\ud800"])
def test_what_cannot_be_encoded_is_refused_with_its_type(value: Any) -> None:
    with pytest.raises(AppError, match=f"returned a {type(value).__name__}"):
        result_of(value)


@pytest.mark.parametrize(
    ("args", "kwargs", "told"),
    [
        ("ann@example.org", None, "args: found 'ann@example.org'; pass a list"),
        (b"ab", None, "args: found b'ab'; pass a list"),
        (5, None, r"args: found 5; pass a list of arguments, such as \[5\]"),
        ({"a"}, None, "args: found {'a'}; pass a list"),
        ((), "n=1", "kwargs: found 'n=1'; pass names and values"),
        ((), {1: 2}, "kwargs: found .1: 2.; pass names and values"),
    ],
)
def test_a_list_of_arguments_that_is_none_is_refused(args: Any, kwargs: Any, told: str) -> None:
    with pytest.raises(AppError, match=told):
        payload_of_parts(args, kwargs)


def test_a_list_of_arguments_and_a_mapping_are_a_call() -> None:
    assert payload_of_parts([1, 2], {"n": 3}) == payload_of(1, 2, n=3)
    assert payload_of_parts(None, None) == payload_of()
