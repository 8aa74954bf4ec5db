"""What a run has printed so far, and how a reader follows it to the end."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shunter.model.job import Job, Status
from shunter.model.job_log import (
    LogPiece,
    LogReader,
    LogRestart,
    end_of_log,
    log_so_far,
    shown_log,
    told_of,
)
from shunter.model.journal import (
    LIVE_LOG,
    MAX_LIVE_LOG_BYTES,
    EntryKind,
    JournalEntry,
    Keep,
    LiveLog,
    encode_live_log,
    keep_fault,
    live_log_of,
)

JOB = Job(id="j", type="t", created=1.0, updated=1.0, status=Status.IN_PROGRESS, attempt=2)
TOLD = LiveLog(0, "one\n")


def entry(attempt: int, body: bytes) -> JournalEntry:
    return JournalEntry(
        job_id="j", kind=EntryKind.LOG, key=LIVE_LOG, attempt=attempt, at=1.0, body=body
    )


def pieces(reader: LogReader, *told: LiveLog, attempt: int = 1) -> list[str]:
    said = []
    for log in told:
        for each in reader.read(attempt, log):
            assert isinstance(each, LogPiece)
            said.append(each.text)
    return said


# ---- what there is to see


def test_a_running_job_shows_what_its_current_run_has_told_and_nothing_of_an_earlier_one() -> None:
    earlier, current = entry(1, encode_live_log(TOLD)), entry(2, encode_live_log(LiveLog(0, "2\n")))
    job = replace(JOB, log="the log of attempt 1\n")

    assert log_so_far(job, told_of([earlier], 2)) == ""
    assert log_so_far(job, told_of([current], 2)) == "2\n"


def test_an_ended_job_shows_its_record_and_what_was_told_only_if_that_is_empty() -> None:
    ended = replace(JOB, status=Status.FAILED, log="all of it\n")

    assert log_so_far(ended, TOLD) == "all of it\n"
    assert log_so_far(replace(ended, log=""), TOLD) == "one\n"
    assert log_so_far(replace(ended, log=""), None) == ""


def test_what_is_left_out_before_the_end_of_a_log_has_a_line() -> None:
    assert shown_log(LiveLog(42, "last\n")) == "[... 42 bytes left out ...]\nlast\n"


@pytest.mark.parametrize(
    ("raw", "printed", "expected"),
    [
        (b"one\ntwo\n", 8, LiveLog(0, "one\ntwo\n")),
        (b"rst\nlast\n", 50, LiveLog(45, "last\n")),
        (b"x" * 99, 500, LiveLog(480, "x" * 20)),
        (b"x" * 99 + b"\n", 100, LiveLog(80, "x" * 19 + "\n")),
        (b"a\0\0b\n", 5, LiveLog(2, "ab\n")),
        (b"\xff\n", 2, LiveLog(0, "\ufffd\n")),
        (b"\xff" * 20, 20, LiveLog(2, "\ufffd" * 6)),
        ("ä".encode() * 30, 61, LiveLog(41, "ä" * 10)),
        ("ä".encode() * 30 + b"b", 61, LiveLog(42, "ä" * 9 + "b")),
    ],
)
def test_the_end_of_a_log_is_whole_lines(raw: bytes, printed: int, expected: LiveLog) -> None:
    assert end_of_log(raw, printed=printed, most=20) == expected


@given(st.binary(max_size=60), st.integers(0, 100), st.integers(0, 30))
def test_the_end_of_a_log_is_never_longer_than_it_may_be(raw: bytes, more: int, most: int) -> None:
    log = end_of_log(raw, printed=len(raw) + more, most=most)

    assert len(log.text.encode()) <= most
    assert log.start >= 0


# ---- what is taken


@pytest.mark.parametrize(
    ("key", "body", "fault"),
    [
        ("log", encode_live_log(TOLD), ""),
        ("log", encode_live_log(LiveLog(0, "x" * (60 << 10))), ""),
        ("other", encode_live_log(TOLD), "one log"),
        ("log", encode_live_log(LiveLog(0, "x" * MAX_LIVE_LOG_BYTES)), "send the last of the log"),
        ("log", msgspec.msgpack.encode("a text"), "send these two"),
        ("log", msgspec.msgpack.encode([-1, "a text"]), "send these two"),
        ("log", msgspec.msgpack.encode([0, "a", "b"]), "send these two"),
        ("log", b"\x92\x00\xa2\xff\xff", "send these two"),
        ("log", b"", "send these two"),
    ],
)
def test_a_log_that_is_told_is_a_number_and_a_text_within_bounds(
    key: str, body: bytes, fault: str
) -> None:
    found = keep_fault(Keep("j", 1, EntryKind.LOG, key, body))

    assert fault in found
    assert bool(found) == bool(fault)


def test_what_can_not_be_read_is_no_log() -> None:
    assert live_log_of(b"\xc1") is None
    assert told_of([entry(2, b"\xc1")], 2) is None


# ---- following


def test_a_reader_gets_what_is_new_and_nothing_twice() -> None:
    reader = LogReader()

    told = [TOLD, TOLD, LiveLog(0, "one\ntwo\n"), LiveLog(4, "two\nthree\n")]

    assert pieces(reader, *told) == ["one\n", "two\n", "three\n"]
    assert (reader.attempt, reader.position) == (1, 14)


def test_a_reader_that_missed_something_is_told_so() -> None:
    assert pieces(LogReader(), TOLD, LiveLog(10, "x\n")) == [
        "one\n",
        "[... 6 bytes left out ...]\nx\n",
    ]


def test_a_log_that_was_cut_back_is_shown_again_and_followed_on() -> None:
    reader = LogReader(1, 1000)

    assert pieces(reader, TOLD, LiveLog(0, "one\ntwo\n")) == ["one\n", "two\n"]


def test_a_new_attempt_restarts_the_log_if_there_was_one() -> None:
    reader = LogReader()
    assert not [it for it in reader.read(1, TOLD) if isinstance(it, LogRestart)]

    assert list(reader.read(2, TOLD)) == [LogRestart(2), LogPiece(2, 4, "one\n")]
    assert list(reader.read(1, LiveLog(0, "one\nlate\n"))) == []


def test_an_encrypted_log_comes_whole_each_time() -> None:
    sealed, longer = LiveLog(0, "<sealed:AAAA>"), LiveLog(0, "<sealed:BBBBBBBB>")

    assert pieces(LogReader(), sealed, sealed, longer) == [sealed.text, longer.text]


@given(
    st.lists(st.text(alphabet="ab\n", min_size=1, max_size=9), min_size=1, max_size=30),
    st.integers(0, 30),
)
def test_a_reader_ends_with_the_whole_log_whatever_it_saw_of_it(
    parts: list[str], looks: int
) -> None:
    """The record has all, or lacks its middle; what is new at the end is behind what was seen."""
    reader, raw, said = LogReader(), b"", ""
    for number, part in enumerate(parts):
        raw += part.encode()
        if number < looks:
            said += "".join(pieces(reader, end_of_log(raw, printed=len(raw), most=1000)))
    ended = replace(JOB, status=Status.COMPLETED, attempt=1, log=raw.decode())

    said += "".join(it.text for it in reader.read_record(ended, None) if isinstance(it, LogPiece))

    assert said == raw.decode()


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (0, "head\n[... 90 bytes left out ...]\ntail\n"),
        (2, "ad\n[... 90 bytes left out ...]\ntail\n"),
        (50, "[... 44 bytes left out ...]\ntail\n"),
        (96, "il\n"),
        (99, None),
    ],
)
def test_a_record_that_lacks_its_middle_is_read_from_where_the_reader_is(
    position: int, expected: str | None
) -> None:
    text = "head\n[... 90 bytes left out ...]\ntail\n"
    ended = replace(JOB, status=Status.COMPLETED, attempt=1, log=text)

    found = [it.text for it in LogReader(1, position).read_record(ended, None)]  # type: ignore[union-attr]

    assert found == ([] if expected is None else [expected])


def test_the_log_of_the_run_before_is_not_taken_for_that_of_a_run_that_died() -> None:
    reader = LogReader()
    queued = replace(JOB, status=Status.QUEUED, attempt=1, log="first\n")
    lost = replace(queued, status=Status.FAILED, attempt=2)

    said = [*reader.read_record(queued, None), *reader.read(2, TOLD)]
    said += reader.read_record(lost, LiveLog(0, "one\ntwo\n"))

    assert said == [
        LogPiece(1, 6, "first\n"),
        LogRestart(2),
        LogPiece(2, 4, "one\n"),
        LogPiece(2, 8, "two\n"),
    ]
