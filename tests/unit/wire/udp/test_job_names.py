"""Under which number a UDP client is told of a task, however often it adds it."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from shunter.model.job import Job, ReplyTo
from shunter.wire.udp import job_names
from shunter.wire.udp.peers import KeyedPeer

HERE = KeyedPeer("10.0.0.1", 5000, "lab", "client-1")
ELSEWHERE = KeyedPeer("10.0.0.2", 6000, "lab", "client-1")


def job_for(reply_to: ReplyTo | None) -> Job:
    return Job(id="j", type="t", payload=None, created=0.0, updated=0.0, reply_to=reply_to)


def test_the_number_of_a_notice_is_in_the_job_s_record() -> None:
    job = job_for(job_names.reply_to(HERE, 5, 77))

    again = msgspec.msgpack.decode(msgspec.msgpack.encode(job), type=Job)

    assert job_names.notice_number(again) == 77
    assert job_names.client_of(again) == (HERE, 5)


def test_records_that_have_it_in_the_address_are_read() -> None:
    address = msgspec.msgpack.encode(["10.0.0.1", 5000, 5, 77])

    job = job_for(ReplyTo(job_names.GATEWAY, address))

    assert job_names.notice_number(job) == 77
    assert job_names.client_of(job) == (("10.0.0.1", 5000), 5)


def test_who_adds_a_task_again_is_told_where_it_is_under_the_first_number() -> None:
    first, again = job_names.reply_to(HERE, 5, 77), job_names.reply_to(ELSEWHERE, 5, 99)

    job = job_for(again.under_number_of(first))

    assert job_names.client_of(job) == (ELSEWHERE, 5)
    assert job_names.notice_number(job) == 77


def test_another_gateway_s_number_is_none_of_ours() -> None:
    ours = job_names.reply_to(HERE, 5, 77)

    for first in (
        None,
        ReplyTo("zmq", b"c"),
        replace(ours, gateway="other"),
        replace(ours, number=0),
    ):
        assert job_names.reply_to(HERE, 5, 99).under_number_of(first).number == 99
