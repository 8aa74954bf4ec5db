"""Instructions that come by several senders."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shunter.flow.graph.instructions import CHECKPOINT, END_OF_STREAM, WATERMARK, Instruction
from shunter.flow.runtime.alignment import Alignment

END = Instruction(END_OF_STREAM)


def told(origin, number=1):
    return Instruction("tick", None, origin, number)


def checkpoint(number):
    return Instruction(CHECKPOINT, number=number)


def test_it_is_due_once_it_has_come_by_all():
    it = Alignment(["a", "b"])
    it.arrived("a", told("x"))
    assert it.due() is None
    assert it.is_held("a")

    it.arrived("b", told("x"))

    assert it.due() == told("x")
    assert it.due() is None
    assert not it.is_held("a")


def test_only_those_that_carry_it_are_waited_for():
    it = Alignment(["a", "b"], lambda origin: {"x": ["a"]}[origin])
    it.arrived("a", told("x"))

    assert it.due() == told("x")


def test_a_sender_at_its_end_is_not_waited_for():
    it = Alignment(["a", "b"])
    it.arrived("a", checkpoint(1))
    it.arrived("b", END)

    assert it.due() == checkpoint(1)
    assert not it.is_at_end
    it.arrived("a", END)
    assert it.is_at_end


def test_two_that_come_in_different_orders_do_not_wait_for_each_other_forever():
    it = Alignment(["a", "b"])
    it.arrived("a", told("x"))
    it.arrived("b", told("y"))
    assert it.due() is None

    assert it.is_held("a")
    assert not it.is_held("b")
    it.arrived("b", told("x"))
    assert it.due() == told("x")
    it.arrived("a", told("y"))
    assert it.due() == told("y")


def test_one_that_will_come_is_waited_for():
    """b is held at y, which c is yet to bring: nothing is tangled."""
    carriers = {"x": ["a", "b"], "y": ["b", "c"]}
    it = Alignment(["a", "b", "c"], lambda origin: carriers[origin])
    it.arrived("a", told("x"))
    it.arrived("b", told("y"))
    assert it.due() is None
    assert it.is_held("b")

    it.arrived("c", told("y"))

    assert it.due() == told("y")


def test_a_checkpoint_is_never_let_pass():
    it = Alignment(["a", "b"])
    it.arrived("a", told("x"))
    it.arrived("b", checkpoint(1))
    assert it.due() is None

    assert it.is_held("b")
    assert not it.is_held("a")


def test_what_was_let_pass_is_known_after_a_restart():
    it = Alignment(["a", "b"])
    it.arrived("a", told("x"))
    it.arrived("b", checkpoint(1))
    it.due()
    it.arrived("a", checkpoint(1))
    assert it.due() == checkpoint(1)
    again = Alignment(["a", "b"])
    again.restore(it.snapshot())

    again.arrived("b", told("x"))

    assert again.due() == told("x")


@given(st.data())
def test_each_is_due_exactly_once_in_whatever_order_they_come(data):
    senders = ["a", "b", "c"]
    all_of_them = [told(origin, n) for origin in "xy" for n in (1, 2)] + [checkpoint(1)]
    lanes = {s: [*data.draw(st.permutations(all_of_them)), END] for s in senders}
    it = Alignment(senders)
    found = []
    while any(lanes.values()):
        free = [s for s in senders if lanes[s] and not it.is_held(s)]
        assert free, "all of them wait"
        sender = data.draw(st.sampled_from(free))
        it.arrived(sender, lanes[sender].pop(0))
        while (due := it.due()) is not None:
            if due.name == CHECKPOINT:
                assert all(checkpoint(1) not in lane for lane in lanes.values())
            found.append(due)
    assert it.is_at_end
    assert sorted(map(repr, found)) == sorted(map(repr, all_of_them))


def test_of_watermarks_by_several_ways_the_one_least_far_counts():
    def mark(time):
        return Instruction(WATERMARK, time, "x", 1)

    for times in ((8, 5), (5, 8)):
        it = Alignment(["a", "b"])
        it.arrived("a", mark(times[0]))
        it.arrived("b", mark(times[1]))

        assert it.due() == mark(5)
