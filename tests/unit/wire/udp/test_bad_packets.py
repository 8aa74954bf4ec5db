"""Bad packets: each is refused for its reason, with its field, and nothing else ever happens."""

from __future__ import annotations

import base64
import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shunter.wire.tagged_values import MAX_NESTING
from shunter.wire.udp.methods import METHODS, Packed, Params
from shunter.wire.udp.packets import (
    MAX_PACKET_BYTES,
    PacketFault,
    PacketReason,
    error_answer,
    parse,
    request,
)
from unit.wire.udp.packet_strategies import IDS, PARAMS

R = PacketReason
GOOD = {"method": "add_task", "params": {"task_id": 5}, "packet_type": 1, "transmission_id": 7}
ABSENT = object()
DEEP_MSGPACK = base64.b64encode(b"\x91" * 5000 + b"\x01").decode()


def fault_in(packet: bytes, most: int = 10**6) -> PacketFault:
    with pytest.raises(PacketFault) as caught:
        parse(packet, most=most)
    return caught.value


def written(**changes: Any) -> bytes:
    fields = {key: value for key, value in (GOOD | changes).items() if value is not ABSENT}
    return json.dumps(fields).encode()


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


# ---- what can't be read at all


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (b"", R.NOT_JSON),
        (b"PING", R.NOT_JSON),
        (b"\0\xff", R.NOT_JSON),
        (b'{"packet_type": 1', R.NOT_JSON),
        (b"{'method': 'add_task', 'packet_type': 1, 'transmission_id': 7}", R.NOT_JSON),
        (b'{"packet_type": 2, "transmission_id": 7}{}', R.NOT_JSON),
        (b'\xef\xbb\xbf{"packet_type": 2, "transmission_id": 7}', R.NOT_JSON),
        (b'{"packet_type": NaN, "transmission_id": 7}', R.NOT_JSON),
        (b'{"packet_type": 2, "transmission_id": "\xff"}', R.NOT_JSON),
        (b'{"packet_type": 2, "transmission_id": "\\ud800"}', R.NOT_JSON),
        (b'{"packet_type": 2, "transmission_id": "a\nb"}', R.NOT_JSON),
        (b'{"packet_type": 2, "transmission_id": %s}' % (b"1" * 5000), R.NOT_JSON),
        (b"null", R.NOT_AN_OBJECT),
        (b"5", R.NOT_AN_OBJECT),
        (b'"add_task"', R.NOT_AN_OBJECT),
        (b'[{"packet_type": 1, "transmission_id": 7}]', R.NOT_AN_OBJECT),
        (b"[" * 100_000, R.NESTING),
        (b'{"packet_type": 1, "transmission_id": 7, "x": ' + b"[" * 100_000, R.NESTING),
    ],
)
def test_what_is_no_packet_is_refused_and_can_t_be_answered(
    packet: bytes, reason: PacketReason
) -> None:
    fault = fault_in(packet)

    assert fault.reason is reason
    assert fault.transmission_id is None
    assert "; send " in fault.message


def test_a_packet_may_have_so_many_bytes_and_no_more() -> None:
    largest = written(params={"task_id": 5, "x": ""})
    largest = written(params={"task_id": 5, "x": "x" * (MAX_PACKET_BYTES - len(largest))})

    assert len(largest) == MAX_PACKET_BYTES
    parse(largest)
    fault = fault_in(largest + b" ", MAX_PACKET_BYTES)
    assert (fault.reason, fault.transmission_id) == (R.TOO_LARGE, None)
    assert "send at most 1200" in str(fault)
    assert fault_in(largest, 1199).reason is R.TOO_LARGE


# ---- what is wrong at the top


@pytest.mark.parametrize("packet_type", [ABSENT, None, 3, -1, "1", 1.5, True, [], {}, 10**30])
def test_a_wrong_packet_type_is_refused_and_not_answered(packet_type: Any) -> None:
    fault = fault_in(written(packet_type=packet_type))

    assert (fault.reason, fault.field) == (R.FIELDS, "packet_type")
    assert "send 0 (no answer wanted), 1 (request) or 2 (answer)" in fault.message
    assert fault.transmission_id is None


@pytest.mark.parametrize("packet_type", [1, 2])
@pytest.mark.parametrize(
    "transmission_id", [ABSENT, None, -1, 2**63, 10**30, 1.5, True, "", "x" * 65, [1], {"a": 1}]
)
def test_a_wrong_transmission_id_is_refused_and_not_answered(
    packet_type: int, transmission_id: Any
) -> None:
    fault = fault_in(written(packet_type=packet_type, transmission_id=transmission_id))

    assert (fault.reason, fault.field) == (R.FIELDS, "transmission_id")
    assert "send a whole number" in fault.message
    assert fault.transmission_id is None


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (ABSENT, R.FIELDS), (None, R.FIELDS), (5, R.FIELDS), (True, R.FIELDS), ([1], R.FIELDS),
        ("", R.METHOD), ("remove_task", R.METHOD), ("ADD_TASK", R.METHOD), ("x" * 500, R.METHOD),
    ],
)  # fmt: skip
def test_a_wrong_method_is_refused_and_a_request_is_told(method: Any, reason: PacketReason) -> None:
    fault = fault_in(written(method=method))

    assert (fault.reason, fault.field, fault.transmission_id) == (reason, "method", 7)
    assert f"send one of {', '.join(METHODS)}" in fault.message
    assert fault_in(written(method=method, packet_type=0)).transmission_id is None


@pytest.mark.parametrize("params", [None, 5, "task", [], [5], True])
def test_params_that_are_no_object_are_refused(params: Any) -> None:
    fault = fault_in(written(params=params))

    assert (fault.reason, fault.field, fault.transmission_id) == (R.FIELDS, "params", 7)
    assert "send an object with task_id, type, payload, priority" in fault.message


# ---- what is wrong in params, generated from the structs

WRONG = [{}, [{}], [5], True, 1.5, "", "x" * 70_000, "\0", -(2**64), 2**64]
RIGHT = {  # those of the above that a field happens to allow
    "error": ["", "\0"],
    "timeout": [1.5],
    "waited": [1.5],
    "ran": [1.5],
    "scheduled": [1.5],
    "task_id": ["\0"],
    "is_final": [True],
    "is_told": [True],
    "has_hooks": [True],
    "may_retry": [True],
    "retry": [{}],
    "wait": [1.5],
    "log": ["", "\0"],
}


def wrong_fields() -> Iterator[tuple[str, str, Any]]:
    for method, params in METHODS.items():
        for field, hint in get_type_hints(params).items():
            if Packed not in get_args(hint):
                allowed = RIGHT.get(field, [])
                yield from ((method, field, value) for value in WRONG if value not in allowed)


def examples(method: str) -> dict[str, Any]:
    status = {"notify_task": "success", "heartbeat": "ready"}.get(method)
    log = {"log": "half\n"} if method == "task_log" else {}
    return {"task_id": 5} | ({"status": status} if status else {}) | log


@pytest.mark.parametrize("method", METHODS)
def test_a_wrong_field_is_refused_by_name(method: str) -> None:
    for which, field, value in wrong_fields():
        if which != method:
            continue
        fault = fault_in(written(method=method, params=examples(method) | {field: value}))

        assert (fault.reason, fault.field) == (R.FIELDS, f"params.{field}"), value
        assert fault.transmission_id == 7
        assert fault.message.startswith("found "), (field, value)
        assert "; send " in fault.message, (field, value)
        assert len(str(fault)) < 400


@pytest.mark.parametrize("method", METHODS)
def test_a_missing_field_is_refused_by_name(method: str) -> None:
    given_ = {
        key: v for key, v in examples(method).items() if key in METHODS[method].__struct_fields__
    }
    assert parse(written(method=method, params=given_))
    for field in given_:
        rest = {key: value for key, value in given_.items() if key != field}
        fault = fault_in(written(method=method, params=rest))

        assert (fault.reason, fault.field) == (R.FIELDS, f"params.{field}")
        assert fault.message.startswith("missing; send ")
    if given_:
        assert fault_in(written(method=method, params=ABSENT)).field.startswith("params.")


def test_a_value_that_quotes_an_error_does_not_mislead() -> None:
    for quoted in ("Object missing required field `nothing`", " - at `$.nothing`", "`$.x` - at `"):
        params = {"task_id": 5, "status": quoted}
        assert fault_in(written(method="notify_task", params=params)).field == "params.status"


# ---- what is wrong in a payload


@pytest.mark.parametrize(
    ("payload", "reason", "field"),
    [
        ({"$bytes": "?"}, R.FIELDS, "params.payload.$bytes"),
        ({"a": [1, {"$float": "high"}]}, R.FIELDS, "params.payload.a.1.$float"),
        ({"$map": 5}, R.FIELDS, "params.payload.$map"),
        ({"$msgpack": "wQ=="}, R.FIELDS, "params.payload.$msgpack"),
        ({"$msgpack": DEEP_MSGPACK}, R.FIELDS, "params.payload.$msgpack"),
        ([10**30], R.FIELDS, "params.payload.0"),
        (nested(MAX_NESTING + 1), R.NESTING, "params.payload"),
        (nested(MAX_NESTING + 50), R.NESTING, "params.payload"),
    ],
)
def test_a_value_that_can_t_be_taken_is_refused(
    payload: Any, reason: PacketReason, field: str
) -> None:
    fault = fault_in(written(params={"task_id": 5, "payload": payload}))

    assert (fault.reason, fault.field, fault.transmission_id) == (reason, field, 7)
    assert "; send " in fault.message


@pytest.mark.parametrize(
    "changes",
    [
        {"params": {"task_id": 5, "payload": nested(MAX_NESTING)}},
        {"packet_type": 2, "data": nested(MAX_NESTING)},
    ],
)
def test_a_value_that_the_stack_has_no_room_for_is_refused(changes: dict[str, Any]) -> None:
    packet = written(**changes)

    def reason(depth: int) -> PacketReason | None:
        if depth:
            return reason(depth - 1)
        try:
            parse(packet)
        except PacketFault as fault:
            return fault.reason
        return None

    reasons = [reason(depth) for depth in range(0, sys.getrecursionlimit() - 150, 50)]

    assert (reasons[0], reasons[-1]) == (None, R.NESTING)


def test_a_value_may_be_nested_as_deeply_as_anywhere_else() -> None:
    parse(written(params={"task_id": 5, "payload": nested(MAX_NESTING)}))


@pytest.mark.parametrize("method", ["notify_task", "completed_task"])
def test_a_result_is_checked_like_a_payload(method: str) -> None:
    fault = fault_in(written(method=method, params=examples(method) | {"result": {"$bytes": 5}}))

    assert (fault.reason, fault.field) == (R.FIELDS, "params.result.$bytes")


def test_text_that_is_not_utf_8_inside_params_can_still_be_answered() -> None:
    packet = written().replace(b'{"task_id": 5}', b'{"task_id": "\xff"}')

    fault = fault_in(packet)

    assert (fault.reason, fault.field, fault.transmission_id) == (R.NOT_JSON, "params", 7)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"$bytes": 5}', R.FIELDS),
        (b'"\xff"', R.NOT_JSON),
        (b"[" * 200 + b"]" * 200, R.NESTING),
        (b"[" * 900 + b"]" * 900, R.NESTING),
    ],
)
def test_an_answer_with_bad_data_is_refused(data: bytes, reason: PacketReason) -> None:
    fault = fault_in(b'{"packet_type": 2, "transmission_id": 7, "data": %b}' % data)

    assert fault.reason is reason
    assert fault.field.startswith("data") or reason is R.NESTING
    assert fault.transmission_id is None


# ---- whatever comes

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=10,
)
TOP = ["method", "params", "packet_type", "transmission_id", "data", "error"]
PARAM = sorted({field for params in METHODS.values() for field in params.__struct_fields__})


def check(packet: bytes) -> None:
    """A packet is taken or refused; and whoever is told why gets no more bytes than they sent."""
    with contextlib.suppress(PacketFault):
        parse(packet)
        return
    fault = fault_in(packet, MAX_PACKET_BYTES)
    if fault.transmission_id is None:
        return
    told = error_answer(
        fault.transmission_id, fault.reason, fault.message, fault.field, most=len(packet)
    )
    assert told is None or len(told) <= len(packet)


@given(st.binary(max_size=1500))
def test_any_bytes_are_taken_or_refused(packet: bytes) -> None:
    check(packet)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(TOP, JUNK),
            "method": st.sampled_from(list(METHODS)) | JUNK,
            "packet_type": st.integers(0, 2) | JUNK,
            "transmission_id": IDS | JUNK,
            "params": st.dictionaries(st.sampled_from(PARAM), JUNK) | JUNK,
        },
    )
)
@example({"packet_type": 1, "transmission_id": 7})
def test_any_document_is_taken_or_refused(document: dict[str, Any]) -> None:
    check(json.dumps(document).encode())


@given(PARAMS, IDS, st.data())
def test_any_damage_to_a_packet_is_taken_or_refused(
    params: Params, transmission_id: int | str, data: st.DataObject
) -> None:
    packet = bytearray(request(params, transmission_id))
    for _ in range(data.draw(st.integers(1, 4))):
        packet[data.draw(st.integers(0, len(packet) - 1))] = data.draw(st.integers(0, 255))

    check(bytes(packet[: data.draw(st.integers(0, len(packet)))]))
    check(bytes(packet))
