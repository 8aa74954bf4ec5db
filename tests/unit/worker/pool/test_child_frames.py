"""What a child tells its parent survives any cut of the stream."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from shunter.model.job import ErrorKind, Failure
from shunter.worker.pool import frames
from shunter.worker.pool.frames import FrameReader, Mark

FAILURE = Failure(ErrorKind.EXCEPTION, "ValueError: oh", "Traceback…")

STREAM = b"".join(
    [
        frames.bare(Mark.READY),
        frames.result(1, 7.5, 0.5, b"\xc0", ""),
        frames.result(2, 8.0, 0.25, b"x" * 300, "a log"),
        frames.progress(3, 9.0, 4.0, None),
        frames.failed(3, 9.0, 0.125, FAILURE, "another"),
        frames.result(4, 9.5, 1.0, b"", ""),
        frames.bare(Mark.RETIRED),
    ]
)


@given(st.lists(st.integers(min_value=0, max_value=len(STREAM)), max_size=12))
def test_frames_come_out_whole_however_the_stream_is_cut(cuts: list[int]) -> None:
    reader = FrameReader()
    edges = [0, *sorted(cuts), len(STREAM)]

    read = [
        frame
        for start, end in itertools.pairwise(edges)
        for frame in reader.feed(STREAM[start:end])
    ]

    assert [frame[:4] for frame in read] == [
        (Mark.READY, 0, 0.0, 0.0),
        (Mark.RESULT, 1, 7.5, 0.5),
        (Mark.RESULT_WITH_LOG, 2, 8.0, 0.25),
        (Mark.PROGRESS, 3, 9.0, 0.0),
        (Mark.FAILED, 3, 9.0, 0.125),
        (Mark.RESULT, 4, 9.5, 1.0),
        (Mark.RETIRED, 0, 0.0, 0.0),
    ]
    assert read[1][4] == b"\xc0"
    logged = frames.read_logged_result(read[2][4])
    assert (logged.result, logged.log) == (b"x" * 300, "a log")
    assert frames.read_last_progress(read[3][4]).total is None
    failed = frames.read_logged_failure(read[4][4])
    assert (failed.failure, failed.log) == (FAILURE, "another")
