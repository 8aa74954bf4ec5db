"""Reports wait each for its own time, and for nothing else."""

from __future__ import annotations

from shunter.model.report import Held, Report
from shunter.worker.http.pending_reports import PendingReports


def bag(*names: str, now: float = 0.0) -> PendingReports:
    made = PendingReports()
    for name in names:
        made.add(Report(name, 1, result=b"\x01"), "w", now=now)
    return made


def test_a_letter_is_taken_once() -> None:
    postbag = bag("a")

    letter = postbag.take(now=0.0)

    assert letter is not None
    assert letter.run == Held("a", 1)
    assert postbag.take(now=0.0) is None
    assert postbag.next_due() is None
    assert len(postbag) == 1


def test_one_that_came_back_waits_for_its_time_and_holds_up_no_other() -> None:
    postbag = bag("a", "b")
    first = postbag.take(now=0.0)
    assert first is not None

    postbag.put_back(first, due=5.0)

    second = postbag.take(now=1.0)
    assert second is not None
    assert second.run.job_id == "b"
    assert postbag.take(now=4.9) is None
    assert postbag.next_due() == 5.0
    assert postbag.take(now=5.0) is first


def test_what_is_due_longest_goes_first() -> None:
    postbag = bag("a", "b")
    for due in (3.0, 2.0):
        letter = postbag.take(now=0.0)
        assert letter is not None
        postbag.put_back(letter, due=due)

    assert [postbag.take(now=9.0).run.job_id for _ in range(2)] == ["b", "a"]  # type: ignore[union-attr]


def test_what_is_settled_is_gone() -> None:
    postbag = bag("a")
    letter = postbag.take(now=0.0)
    assert letter is not None

    assert postbag.remove(letter)
    assert not postbag.remove(letter)
    assert len(postbag) == 0


def test_a_letter_that_was_forgotten_on_its_way_does_not_come_back() -> None:
    postbag = bag("a")
    letter = postbag.take(now=0.0)
    assert letter is not None
    postbag.clear()

    postbag.put_back(letter, due=0.0)

    assert postbag.take(now=1.0) is None
    assert not postbag.remove(letter)
