"""From one worker to those behind an edge: routes, what is taken, what comes again."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.flow.graph.instructions import FLUSH, Instruction
from shunter.flow.graph.routes import BALANCED, LOCAL, TO_ALL, by_key
from shunter.flow.runtime.sender import Sender

FLUSHED = Instruction(FLUSH, origin="s", number=1)


class Box:
    """A receiver that takes as much as it is told to, and drops what it has seen."""

    def __init__(self, room=10**6):
        self.left = room
        self.items = []
        self.mark = 0
        self.again = 0

    def room(self, _):
        return self.left

    def enqueue(self, _, first, events):
        taken = 0
        for number, event in enumerate(events, first):
            if number <= self.mark:
                self.again += 1
            elif self.left:
                self.left -= 1
                self.mark = number
                self.items.append(event)
            else:
                break
            taken += 1
        return taken

    def instruct(self, sender, number, instruction):
        return self.enqueue(sender, number, [instruction])


def sending(route, *boxes):
    return Sender("s.0/0", route, boxes)


def put_all(it, items):
    """Put events and instructions, in their order."""
    run = []
    for item in items:
        if isinstance(item, Instruction):
            it.put(run, inputs=len(run))
            it.put_instruction(item)
            run = []
        else:
            run.append(item)
    it.put(run, inputs=len(run))


TEN, NINE = list(range(10)), list(range(11, 20))


def test_ten_events_an_instruction_and_nine_events_to_one_outbox():
    box = Box()
    it = sending(BALANCED, box)
    put_all(it, [*TEN, FLUSHED, *NINE])

    assert it.deliver() == 19
    assert box.items == [*TEN, FLUSHED, *NINE]
    assert it.waiting == 0


def test_of_a_single_outbox_whatever_was_taken_is_acknowledged():
    box = Box(room=14)
    it = sending(BALANCED, box)
    put_all(it, [*TEN, FLUSHED, *NINE])

    assert it.deliver() == 13
    box.left = 100
    assert it.deliver() == 6


@pytest.mark.parametrize("route", [BALANCED, by_key(lambda event: event)], ids=str)
def test_ten_events_an_instruction_and_nine_events_to_three_of_which_one_is_full(route):
    """The instruction goes to every outbox, and again to those that took it, until all did."""
    boxes = [Box(10), Box(30), Box(10)]
    it = sending(route, *boxes)
    put_all(it, TEN)
    assert it.deliver() == 10
    boxes[0].left = 0
    put_all(it, [FLUSHED, *NINE])

    assert it.deliver() == 0
    assert [FLUSHED in box.items for box in boxes] == [False, True, True]
    assert it.deliver() == 0
    assert it.waiting == 10
    assert [box.again for box in boxes] == [0, 1, 1]

    for box in boxes:
        box.left = 100
    assert it.deliver() == 9
    assert [box.items.count(FLUSHED) for box in boxes] == [1, 1, 1]
    for box in boxes:
        at = box.items.index(FLUSHED)
        assert set(box.items[:at]) <= set(TEN)
        assert set(box.items[at + 1 :]) <= set(NINE)
    events = [item for box in boxes for item in box.items if item != FLUSHED]
    assert sorted(events) == [*TEN, *NINE]


def test_balanced_goes_where_most_room_is():
    small, large = Box(5), Box(50)
    it = sending(BALANCED, small, large)
    put_all(it, TEN)
    it.deliver()

    assert (small.items, large.items) == ([], TEN)


def test_a_key_that_is_full_does_not_keep_others_waiting():
    boxes = [Box(), Box()]
    it = sending(by_key(lambda event: event), *boxes)
    put_all(it, range(100))
    it.deliver()
    shares = [len(box.items) for box in boxes]
    assert all(shares)
    boxes[0].left = 0
    put_all(it, range(100))

    assert it.deliver() == 0
    assert len(boxes[1].items) == 2 * shares[1]
    boxes[0].left = 100
    assert it.deliver() == 100


def test_what_is_left_of_a_run_goes_before_the_next_one_to_the_same_receiver():
    """Its numbers are lower: behind a higher one they would be taken for known."""

    class Hesitant(Box):
        def enqueue(self, sender, first, events):
            self.left = 1
            return super().enqueue(sender, first, events)

    boxes = [Hesitant(), Hesitant()]
    it = sending(by_key(lambda event: "one key"), *boxes)
    put_all(it, [1, 2, 3])
    put_all(it, [4, 5, 6])
    while it.waiting:
        it.deliver()

    assert sorted(box.items for box in boxes) == [[], [1, 2, 3, 4, 5, 6]]


def test_events_without_a_key_are_left_out_and_told():
    boxes = [Box(), Box()]
    it = sending(by_key("k"), *boxes)
    bad = []
    it.put([{"k": 1}, {}, {"k": []}], inputs=3, bad=lambda event, error: bad.append(event))

    assert it.deliver() == 3
    assert bad == [{}, {"k": []}]
    assert [item for box in boxes for item in box.items] == [{"k": 1}]


class Fickle(Box):
    """Has room again from one offer to the next."""

    def __init__(self, data):
        super().__init__(0)
        self._data = data

    def enqueue(self, sender, first, events):
        self.left += self._data.draw(st.integers(0, 3))
        return super().enqueue(sender, first, events)


routes = st.sampled_from([LOCAL, BALANCED, TO_ALL, by_key(lambda event: event % 7)])
item = st.one_of(st.integers(0, 50), st.just(FLUSHED))


@given(routes, st.integers(1, 4), st.lists(st.lists(item, max_size=12), max_size=6), st.data())
def test_outboxes_that_take_anything_at_any_time_get_everything_once(route, count, batches, data):
    boxes = [Fickle(data) for _ in range(count)]
    it = sending(route, *boxes)
    acknowledged = 0
    everything = []
    for number, batch in enumerate(batches):
        batch = [
            Instruction(FLUSH, number) if each is FLUSHED else (number * 1000 + at) * 51 + each
            for at, each in enumerate(batch)
        ]
        everything += batch
        put_all(it, batch)
        acknowledged += it.deliver()
        assert acknowledged <= len(everything)
    while it.waiting:
        for box in boxes:
            box.left += 1
        acknowledged += it.deliver()
    events = [each for each in everything if not isinstance(each, Instruction)]
    acknowledged += it.deliver()

    assert acknowledged == len(events)
    copies = count if route is TO_ALL else 1
    received = [each for box in boxes for each in box.items if not isinstance(each, Instruction)]
    assert sorted(received) == sorted(events * copies)
    for box in boxes:
        order = [each for each in everything if each in box.items]
        if route.kind == "by key":
            assert _by_keys(box.items) == _by_keys(order)
        else:
            assert box.items == order
        assert all(
            box.items.count(each) == everything.count(each)
            for each in set(box.items)
            if isinstance(each, Instruction)
        )
        assert all(each in box.items for each in everything if isinstance(each, Instruction))


def _by_keys(items):
    """Each key's events in their order, with the instructions between them."""
    found = defaultdict(list)
    keys = {each % 7 for each in items if not isinstance(each, Instruction)}
    for each in items:
        for key in keys if isinstance(each, Instruction) else [each % 7]:
            found[key].append(each)
    return dict(found)
