"""A record as users read it: decoded, and as JSON."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from shunter.codec import CodecContext, SealedField, seal
from shunter.errors import AppError
from shunter.model.job import ErrorKind, Failure, Job, Status, in_one_line
from shunter.payload import payload_of


def job(result: bytes | None = None, **fields: Any) -> Job:
    return Job(
        id="j", type="t", created=1.0, updated=2.0, payload=payload_of(1, b=2), result=result,
        status=Status.COMPLETED, **fields,
    )  # fmt: skip


def test_result_and_arguments_are_decoded() -> None:
    done = job(msgspec.msgpack.encode({"sum": 3}))

    assert done.value == {"sum": 3}
    assert done.arguments == {"*": [1], "b": 2}
    assert job().value is None


@pytest.mark.parametrize("value", [None, 1, "x", [1, {"a": b"\0\xff"}], {1: 2}, 1.5])
def test_a_record_becomes_json_as_it_is(value: Any) -> None:
    written = json.loads(json.dumps(job(msgspec.msgpack.encode(value), log="hi").as_dict()))

    assert (written["id"], written["status"], written["log"]) == ("j", "completed", "hi")
    assert written["payload"] == {"*": [1], "b": 2}
    if isinstance(value, int | str):
        assert written["result"] == value


def test_keys_that_json_lacks_become_texts() -> None:
    value = {None: 1, True: [{(1, 2): "x"}], 3: 4, "a": 5}

    written = json.loads(json.dumps(job(msgspec.msgpack.encode(value)).as_dict()))

    assert written["result"] == {"null": 1, "true": [{"[1,2]": "x"}], "3": 4, "a": 5}


def test_what_is_encrypted_says_so() -> None:
    class Plain:
        label = "k"

        def encode(self, data: Any, context: CodecContext) -> Any:
            return data

        def decode(self, data: Any, context: CodecContext) -> Any:
            return data

    sealed = seal(Plain(), b"\x01", CodecContext(SealedField.RESULT, "j"))

    assert job(sealed).as_dict()["result"] == {"encrypted": True, "bytes": len(sealed)}


def test_a_failure_is_one_short_line() -> None:
    failure = Failure(ErrorKind.EXCEPTION, "ValueError: a\n  b " + "x" * 1000)

    line = in_one_line(failure)

    assert line.startswith("exception: ValueError: a b xxx")
    assert len(line) <= 301
    assert in_one_line(None) == "no reason was recorded"


def test_a_record_from_a_list_does_not_pass_for_one_without_a_result() -> None:
    listed = replace(job(), payload=None, result=None)

    for read in (lambda: listed.value, lambda: listed.arguments):
        with pytest.raises(AppError, match=r"comes from a list.*client\.job\('j'\) has both"):
            read()
    assert {"payload", "result"}.isdisjoint(listed.as_dict())
