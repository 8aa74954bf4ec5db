"""Which schedules are due, without looking at those that are not."""

from __future__ import annotations

from shunter.dispatch.timetable import Timetable, TimetableEntry, is_first_in_line


def timetable(**looks: float | None) -> Timetable:
    made = Timetable()
    for name, at in looks.items():
        made.enter(name, TimetableEntry(1, at))
    return made


def test_what_is_due_is_taken_in_order_and_once() -> None:
    known = timetable(c=3.0, a=1.0, b=2.0, later=9.0, never=None)

    assert known.next_look == 1.0
    assert known.take_due(now=5.0, limit=2) == ["a", "b"]
    assert known.take_due(now=5.0, limit=9) == ["c"]
    assert known.take_due(now=5.0, limit=9) == []
    assert known.is_in_hand("a")
    assert known.next_look == 9.0


def test_what_was_entered_again_counts_as_it_is_now() -> None:
    known = timetable(a=1.0, b=2.0, c=3.0)
    known.enter("a", TimetableEntry(2, 8.0))
    known.enter("b", TimetableEntry(2, None))
    known.forget("c")

    assert known.take_due(now=5.0, limit=9) == []
    assert known.next_look == 8.0
    assert sorted(known) == ["a", "b"]


def test_what_was_in_hand_is_due_again_also_at_the_same_time() -> None:
    known = timetable(a=1.0)
    known.take_due(now=5.0, limit=9)
    known.look_again("a", 1.0)

    assert known.take_due(now=5.0, limit=9) == ["a"]
    known.forget("a")
    known.look_again("a", 1.0)
    assert known.next_look is None


def test_entering_the_same_again_and_again_takes_no_room() -> None:
    known = timetable(a=1.0)
    for _ in range(100):
        known.enter("a", TimetableEntry(1, 1.0))

    assert len(known._heap) == 1


def test_of_any_dispatchers_one_is_first_in_line_and_all_take_their_turns() -> None:
    everybody = {"d-1", "d-2", "d-3"}
    first = {
        name: [it for it in everybody if is_first_in_line(name, it, everybody - {it})]
        for name in map(str, range(300))
    }

    assert {len(found) for found in first.values()} == {1}
    counts = [sum(found == [it] for found in first.values()) for it in everybody]
    assert min(counts) > 60
