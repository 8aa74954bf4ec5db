"""Submissions that are refused, each with the field at fault."""

from __future__ import annotations

import math

import msgspec
import pytest

from shunter.client import Client
from shunter.model.retry import Retry
from shunter.model.submission import Submission
from shunter.model.unique import Unique
from shunter.wire.messages import Submit
from system.plain_peers import PlainPeers

LIMIT = 1024 * 1024


@pytest.mark.parametrize(
    "submission",
    [
        Submission("x y", "add", b"\x90"),
        Submission("fine-1", "", b"\x90"),
        Submission("fine-2", "add", b"\x90", priority=10**9),
        Submission("fine-3", "add", b"\x90", timeout=math.nan),
        Submission("fine-4", "add", b"\x90", delay=-1.0),
        Submission("fine-5", "add", b"\x90", delay=math.inf),
        Submission("fine-6", "add", b"\x90", not_before=math.nan),
        Submission("fine-7", "add", b"\x90", unique_key=""),
        Submission("fine-8", "add", b"\x90", retry=Retry(limit=-1)),
        Submission("fine-9", "add", b"x" * (LIMIT + 1)),
        Submission("fine-10", "add", b"\xc1 is no msgpack"),
        Submission("fine-11", "add", b""),
        Submission("fine-12", "add", b"\x90", effects="once"),
        Submission("fine-13", "add", b"\x90", retry=Retry(on=("",))),
        Submission("fine-14", "add", b"\x90", unique=Unique("k", then="drop")),
        Submission("fine-16", "add", b"\x90", run="two words"),
        Submission("fine-17", "add", b"\x90", run="nightly\n"),
        Submission("fine-18", "final-failure/add", b"\x90"),
        Submission("final-failure/x", "add", b"\x90"),
        Submission("fine-15", "add", b"\x90", unique=Unique("k", within=math.nan)),
    ],
    ids=lambda submission: f"{submission.id}",
)
def test_a_submission_with_a_bad_field_is_refused_with_that_field(
    plain: PlainPeers, client: Client, submission: Submission
) -> None:
    stranger = plain.client()

    stranger.send(b"", b"SUBMIT", msgspec.msgpack.encode(Submit(7, (submission,))))

    kind, body = stranger.hears()
    assert kind == b"ACCEPTED"
    request, [receipt], *_ = msgspec.msgpack.decode(body)
    assert request == 7
    assert receipt[1]
    assert receipt[2]


def test_texts_with_odd_characters_are_stored_or_refused(plain: PlainPeers, client: Client) -> None:
    odd = "\0 \N{SNOWMAN} \U0001f600 \x7f '; -- \""
    submission = Submission("odd-1", "add", b"\x90", workflow=odd, unique_key=odd, delay=9e6)
    stranger = plain.client()

    stranger.send(b"", b"SUBMIT", msgspec.msgpack.encode(Submit(1, (submission,))))

    assert stranger.hears()[0] == b"ACCEPTED"
    stored = client.job("odd-1")
    assert (stored.workflow, stored.unique_key) == (odd, odd)
