"""Packets: what is written is read again, and what is answered is never longer than what came."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shunter.wire.udp.methods import (
    METHODS,
    AddTask,
    CompletedTask,
    Heartbeat,
    NotifyTask,
    Packed,
    Params,
    PerformTask,
    Ping,
    TaskLog,
)
from shunter.wire.udp.packets import (
    AnswerError,
    Command,
    Confirmation,
    answer,
    error_answer,
    notice,
    padded,
    parse,
    request,
)
from unit.wire.udp.packet_strategies import DOCUMENTS, IDS, PARAMS, TEXTS

ANY_SIZE = 10**6


def command(packet: bytes) -> Command:
    read = parse(packet, most=ANY_SIZE)
    assert isinstance(read, Command)
    return read


def as_json(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def packed(value: Any) -> Packed:
    return Packed(msgspec.msgpack.encode(value))


# ---- the seed's packets


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        ("add_task", {"task_id": 5}, AddTask(task_id=5)),
        ("perform_task", {"task_id": 5}, PerformTask(task_id=5)),
        ("completed_task", {"task_id": 5}, CompletedTask(task_id=5)),
        (
            "notify_task",
            {"status": "success", "task_id": 5},
            NotifyTask(status="success", task_id=5),
        ),
    ],
)
def test_a_request_of_the_seed_is_read(
    method: str, params: dict[str, Any], expected: Params
) -> None:
    packet = as_json(method=method, params=params, packet_type=1, transmission_id=1598326709621)

    read = command(packet)

    assert (read.params, read.transmission_id) == (expected, 1598326709621)
    assert read.wants_answer


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        ("heartbeat", {"status": "ready"}, Heartbeat(status="ready")),
        ("notify_task", {"status": "error", "task_id": 5}, NotifyTask(status="error", task_id=5)),
    ],
)
def test_a_packet_of_the_seed_that_wants_no_answer_is_read(
    method: str, params: dict[str, Any], expected: Params
) -> None:
    read = command(as_json(method=method, params=params, packet_type=0))

    assert (read.params, read.transmission_id, read.wants_answer) == (expected, None, False)


def test_packets_are_written_as_the_seed_has_them() -> None:
    assert json.loads(request(AddTask(task_id=5), 1598326709621)) == {
        "method": "add_task",
        "params": {"task_id": 5},
        "packet_type": 1,
        "transmission_id": 1598326709621,
    }
    assert json.loads(notice(Heartbeat(status="ready"))) == {
        "method": "heartbeat",
        "params": {"status": "ready"},
        "packet_type": 0,
    }
    assert json.loads(answer(1598326709621)) == {
        "packet_type": 2,
        "transmission_id": 1598326709621,
    }


# ---- there and back


@given(PARAMS, IDS)
def test_a_request_is_read_as_it_was_written(params: Params, transmission_id: int | str) -> None:
    read = command(request(params, transmission_id))

    assert (read.params, read.transmission_id, read.wants_answer) == (params, transmission_id, True)
    assert type(read.transmission_id) is type(transmission_id)


@given(PARAMS, IDS | st.none())
def test_a_notice_is_read_as_it_was_written(
    params: Params, transmission_id: int | str | None
) -> None:
    read = command(notice(params, transmission_id))

    assert (read.params, read.transmission_id) == (params, transmission_id)
    assert not read.wants_answer


@given(IDS, DOCUMENTS | st.none())
def test_an_answer_is_read_as_it_was_written(
    transmission_id: int | str, data: Packed | None
) -> None:
    assert parse(answer(transmission_id, data), most=ANY_SIZE) == Confirmation(
        transmission_id, data
    )


@given(IDS, TEXTS, TEXTS, TEXTS)
def test_an_error_is_read_as_it_was_written(
    transmission_id: int | str, code: str, message: str, field: str
) -> None:
    written = error_answer(transmission_id, code, message, field, most=ANY_SIZE)

    assert written is not None
    assert parse(written, most=ANY_SIZE) == Confirmation(
        transmission_id, error=AnswerError(code, message or None, field or None)
    )


def test_every_method_has_a_round_trip() -> None:
    kinds = {AddTask, NotifyTask, PerformTask, CompletedTask, TaskLog, Heartbeat, Ping}
    assert set(METHODS.values()) == kinds


@given(PARAMS, IDS, st.integers(0, 1200))
@example(NotifyTask(status="success", task_id=0), 0, 103)
def test_a_padded_packet_is_long_enough_and_says_the_same(
    params: Params, transmission_id: int | str, size: int
) -> None:
    packet = request(params, transmission_id)

    longer = padded(packet, size)

    assert size <= len(longer) <= max(size, len(packet) + len(',"padding":"."'))
    assert parse(longer, most=ANY_SIZE) == parse(packet, most=ANY_SIZE)


# ---- what others may do


def test_what_a_peer_adds_of_its_own_is_ignored() -> None:
    params = {"task_id": "t", "colour": ["red"], "task": {}}
    packet = as_json(
        method="add_task", params=params, packet_type=1, transmission_id="x", version=3, hops=[]
    )

    assert command(packet).params == AddTask(task_id="t")


def test_null_is_as_good_as_absent() -> None:
    params = {"task_id": 1, "type": None, "payload": None, "priority": None}
    packet = as_json(
        method="add_task", params=params, packet_type=0, transmission_id=None, data=None
    )

    assert command(packet).params == AddTask(task_id=1)
    assert parse(as_json(packet_type=2, transmission_id=1, data=None, error=None)) == Confirmation(
        1
    )


def test_bytes_and_other_values_that_json_lacks_are_tagged() -> None:
    params = {"task_id": 1, "payload": {"a": {"$bytes": "AP8="}, "b": {"$float": "inf"}}}
    packet = as_json(method="add_task", params=params, packet_type=0)

    assert command(packet).params == AddTask(
        task_id=1, payload=packed({"a": b"\0\xff", "b": float("inf")})
    )
    assert b'{"$bytes":"AP8="}' in notice(PerformTask(task_id=1, payload=packed(b"\0\xff")))


@pytest.mark.parametrize("error", [True, "busy", 5, [], {"reason": "busy"}, {"code": 5}, "\0"])
def test_an_error_of_any_shape_is_a_refusal(error: Any) -> None:
    read = parse(as_json(packet_type=2, transmission_id=1, error=error))

    assert isinstance(read, Confirmation)
    assert read.error is not None
    assert read.error.code == "error"
    assert json.loads(read.error.message or "") == error


# ---- which packets are the same


def test_a_resent_packet_has_the_same_key() -> None:
    packet = request(AddTask(task_id=5), 7)
    told_apart = as_json(
        method="add_task", params={"task_id": 5}, packet_type=1, transmission_id=7, sent=2
    )
    again = as_json(
        method="add_task", params={"task_id": 5}, packet_type=1, transmission_id=7, sent=3
    )

    assert command(packet).key == command(bytes(bytearray(packet))).key
    assert command(told_apart).key == command(again).key


@pytest.mark.parametrize(
    ("params", "transmission_id"),
    [
        (AddTask(task_id=6), 7),
        (AddTask(task_id="5"), 7),
        (AddTask(task_id=5), 8),
        (AddTask(task_id=5), "7"),
        (AddTask(task_id=5, payload=packed(1)), 7),
        (CompletedTask(task_id=5), 7),
    ],
)
def test_another_packet_has_another_key_even_under_the_same_id(
    params: Params, transmission_id: int | str
) -> None:
    first = command(request(AddTask(task_id=5), 7))

    assert command(request(params, transmission_id)).key != first.key


def test_numbers_that_python_hashes_alike_are_told_apart() -> None:
    assert hash(-1) == hash(-2)
    keys = {command(request(AddTask(task_id=number), 7)).key for number in (-1, -2)}

    assert len(keys) == 2


# ---- nobody gets back more than they sent


@given(PARAMS, IDS)
def test_a_confirmation_is_shorter_than_the_request(
    params: Params, transmission_id: int | str
) -> None:
    assert len(answer(transmission_id)) < len(request(params, transmission_id))


@given(st.text(st.characters(categories=["Cc", "Zs", "Po", "So"]), min_size=1, max_size=64))
def test_an_id_in_any_spelling_is_echoed_in_no_more_bytes(transmission_id: str) -> None:
    for is_ascii in (True, False):
        document = {"packet_type": 1, "transmission_id": transmission_id, "method": "heartbeat"}
        packet = json.dumps(
            document | {"params": {"status": "busy"}}, ensure_ascii=is_ascii, separators=(",", ":")
        ).encode()

        assert len(answer(command(packet).transmission_id or "")) < len(packet)


@given(IDS, DOCUMENTS, st.integers(0, 200))
def test_data_that_would_make_the_answer_too_long_is_left_out(
    transmission_id: int | str, data: Packed, most: int
) -> None:
    written = answer(transmission_id, data, most=most)

    assert len(written) <= most or written == answer(transmission_id)
    assert written in (answer(transmission_id), answer(transmission_id, data))


@given(IDS, TEXTS, TEXTS, st.integers(0, 400))
def test_an_error_has_no_more_bytes_than_allowed_and_is_never_a_confirmation(
    transmission_id: int | str, message: str, field: str, most: int
) -> None:
    written = error_answer(transmission_id, "fields", message, field, most=most)

    least = error_answer(transmission_id, "fields", "", "", most=ANY_SIZE)
    assert least is not None
    if written is None:
        assert len(least) > most
    else:
        assert len(written) <= most
        read = parse(written)
        assert isinstance(read, Confirmation)
        assert read.error is not None
        assert read.error.code == "fields"


def test_the_message_is_shortened_before_it_is_dropped_and_the_field_goes_last() -> None:
    def error(most: int) -> Any:
        written = error_answer(1, "fields", "found null; send a number", "params.a", most=most)
        return written and json.loads(written)["error"]

    whole = error(ANY_SIZE)
    length = len(error_answer(1, "fields", whole["message"], whole["field"], most=ANY_SIZE) or b"")

    assert error(length) == whole
    assert error(length - 1) == whole | {"message": "found null; send a nu..."}
    assert error(length - 30) == {"code": "fields", "field": "params.a"}
    assert error(length - 50) == {"code": "fields"}
    assert error(length - 100) is None
