"""Large messages in parts: windows, budgets, loss, repetition, and peers that mean no good."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shunter.wire.messages import Decline, Grant, Kind, Offer, Part
from shunter.wire.parts import (
    ASK_AGAIN_SECONDS,
    GRACE_SECONDS,
    LAST_RETURN_SECONDS,
    PART_BYTES,
    SLOWEST_BYTES_PER_SECOND,
    STALLED_SECONDS,
    WHOLE_BYTES,
    WINDOW_BYTES,
    Arrived,
    ByteBudget,
    Delivered,
    PartReceiver,
    PartSender,
    Say,
    SayWhole,
    Undelivered,
)

MEBIBYTE = 1024 * 1024
KINDS = frozenset({Kind.SUBMIT, Kind.RESULTS})
BODY = bytes(range(256)) * (MEBIBYTE // 256)


def receiver(limit: int = 8 * MEBIBYTE, max_bytes: int = 4 * MEBIBYTE) -> PartReceiver:
    return PartReceiver(ByteBudget(limit), max_bytes=max_bytes, kinds=KINDS)


def said(effects, kind):
    return [effect.body for effect in effects if isinstance(effect, Say) and effect.kind is kind]


def exchange(sender, receiver, effects, *, peer=b"p", now=0.0, loses=lambda say: False):
    """Carry messages to and fro until nobody has anything to say; return what else happened."""
    happened, on_their_way = [], list(effects)
    while on_their_way:
        effect = on_their_way.pop(0)
        if not isinstance(effect, Say):
            happened.append(effect)
        elif loses(effect):
            continue
        elif effect.kind is Kind.OFFER:
            on_their_way += receiver.offered(peer, effect.body, now=now)
        elif effect.kind is Kind.PART:
            on_their_way += receiver.took(peer, effect.body, now=now)
        elif effect.kind is Kind.GRANT:
            on_their_way += sender.granted(effect.body, now=now)
        elif effect.kind is Kind.DECLINE:
            on_their_way += sender.declined(effect.body, now=now)
    return happened


def test_a_message_arrives_as_it_was_and_its_sender_is_told():
    sender, taker = PartSender(), receiver()

    happened = exchange(sender, taker, sender.put(Kind.SUBMIT, BODY, now=0.0, key="k"))

    assert happened == [Arrived(b"p", Kind.SUBMIT, bytearray(BODY)), Delivered(b"", "k")]
    assert not sender
    assert len(taker) == 0
    assert sender.size == 0


def test_nothing_is_sent_before_it_is_granted_and_then_no_more_than_a_window():
    sender, taker = PartSender(), receiver()

    (offer,) = sender.put(Kind.SUBMIT, BODY, now=0.0)
    (grant,) = taker.offered(b"p", offer.body, now=0.0)
    parts = said(sender.granted(grant.body, now=0.0), Kind.PART)

    assert offer == Say(b"", Kind.OFFER, Offer(1, Kind.SUBMIT, len(BODY)))
    assert [len(part.data) for part in parts] == [PART_BYTES] * (WINDOW_BYTES // PART_BYTES)
    assert sender.unacknowledged == WINDOW_BYTES
    assert sender.granted(grant.body, now=0.0) == []


def test_one_message_is_on_its_way_at_a_time_and_small_ones_keep_their_place():
    sender, taker = PartSender(), receiver()

    begun = sender.put(Kind.SUBMIT, BODY, now=0.0, key=1)
    assert sender.put(Kind.CANCEL, b"small", now=0.0, key=2) == []
    assert sender.put(Kind.SUBMIT, BODY[::-1], now=0.0, key=3) == []
    assert list(sender.keys()) == [1, 2, 3]
    happened = exchange(sender, taker, begun)

    assert [type(effect) for effect in happened] == [
        Arrived, Delivered, SayWhole, Delivered, Arrived, Delivered,
    ]  # fmt: skip


def test_who_finds_no_room_is_told_when_to_come_back_and_is_let_in_by_itself():
    budget = ByteBudget(MEBIBYTE)
    taker = PartReceiver(budget, max_bytes=4 * MEBIBYTE, kinds=KINDS)
    taker.offered(b"first", Offer(1, Kind.SUBMIT, MEBIBYTE), now=0.0)

    (answer,) = taker.offered(b"second", Offer(1, Kind.SUBMIT, MEBIBYTE), now=0.0)
    assert answer.kind is Kind.DECLINE
    assert 0 < answer.body.retry_after <= LAST_RETURN_SECONDS
    assert f"{answer.body.retry_after:.1f} s" in answer.body.reason
    assert taker.admit(now=0.1) == []

    budget.release(MEBIBYTE)
    assert taker.admit(now=0.2) == [Say(b"second", Kind.GRANT, Grant(1, 0, WINDOW_BYTES))]


def test_the_line_is_first_come_first_served_also_for_small_ones():
    budget = ByteBudget(3 * MEBIBYTE)
    taker = PartReceiver(budget, max_bytes=4 * MEBIBYTE, kinds=KINDS)
    for peer, size in ((b"a", 2), (b"large", 2), (b"small", 1)):
        taker.offered(peer, Offer(1, Kind.SUBMIT, size * MEBIBYTE), now=0.0)
    taker.offered(b"large", Offer(1, Kind.SUBMIT, 2 * MEBIBYTE), now=1.0)  # keeps its place

    budget.release(2 * MEBIBYTE)
    assert [say.peer for say in taker.admit(now=1.0)] == [b"large", b"small"]


def test_a_sender_that_was_put_off_comes_back_when_it_was_told_to():
    sender = PartSender()
    (offer,) = sender.put(Kind.SUBMIT, BODY, now=0.0)

    assert sender.declined(Decline(1, "busy", 5.0), now=0.0) == []

    assert sender.quiet_until == 5.0
    assert sender.tick(now=4.9) == []
    assert sender.tick(now=5.0) == [offer]


def test_what_is_never_taken_is_given_up_and_the_next_is_offered():
    sender, taker = PartSender(), receiver(max_bytes=MEBIBYTE)

    begun = sender.put(Kind.SUBMIT, BODY * 2, now=0.0, key="too large")
    sender.put(Kind.SUBMIT, BODY, now=0.0, key="fits")
    happened = exchange(sender, taker, begun)

    refused, *rest = happened
    assert isinstance(refused, Undelivered)
    assert refused.key == "too large"
    assert "at most 1,048,576" in refused.reason
    assert Delivered(b"", "fits") in rest


@pytest.mark.parametrize(
    "offer",
    [
        Offer(1, Kind.SUBMIT, -1),
        Offer(1, Kind.SUBMIT, 0),
        Offer(1, Kind.SUBMIT, 2**62),
        Offer(1, Kind.PING, 1000),
        Offer(1, Kind.PART, MEBIBYTE),
    ],
)
def test_an_offer_that_makes_no_sense_is_declined_for_good_and_reserves_nothing(offer):
    budget = ByteBudget(8 * MEBIBYTE)
    taker = PartReceiver(budget, max_bytes=4 * MEBIBYTE, kinds=KINDS)

    (answer,) = taker.offered(b"p", offer, now=0.0)

    assert answer.body.retry_after is None
    assert budget.used == 0


def test_an_offer_without_an_answer_is_made_again():
    sender = PartSender()
    begun = sender.put(Kind.SUBMIT, BODY, now=0.0)

    assert sender.tick(now=ASK_AGAIN_SECONDS - 0.1) == []
    assert sender.tick(now=ASK_AGAIN_SECONDS) == begun


def test_after_a_broken_connection_only_what_was_lost_is_sent_again():
    sender, taker = PartSender(), receiver()
    begun = sender.put(Kind.SUBMIT, BODY, now=0.0, key="k")
    sent = []

    def loses_after_eight(say):
        if say.kind is Kind.PART:
            sent.append(say.body.offset)
        return len(sent) > 8

    assert exchange(sender, taker, begun, loses=loses_after_eight) == []
    lost_at = max(sent[:8]) + PART_BYTES
    del sent[:]
    again = sender.tick(now=30.0)
    happened = exchange(
        sender, taker, again, now=30.0, loses=lambda say: sent.append(say) and False
    )

    assert Delivered(b"", "k") in happened
    offsets = [say.body.offset for say in sent if say.kind is Kind.PART]
    assert min(offsets) == lost_at
    assert len(offsets) == len(set(offsets))


def test_a_peer_that_has_all_says_so_again_and_does_not_take_it_twice():
    sender, taker = PartSender(), receiver()
    begun = sender.put(Kind.SUBMIT, BODY, now=0.0, key="k")
    last = Grant(1, len(BODY), len(BODY))

    happened = exchange(sender, taker, begun, loses=lambda say: say.body == last)
    assert [type(effect) for effect in happened] == [Arrived]

    happened = exchange(sender, taker, sender.tick(now=10.0), now=10.0)
    assert happened == [Delivered(b"", "k")]


def test_a_receiver_that_has_forgotten_gets_it_from_the_start():
    sender = PartSender()
    begun = sender.put(Kind.SUBMIT, BODY, now=0.0, key="k")
    parts = 0

    def dies(say):
        nonlocal parts
        parts += say.kind is Kind.PART
        return parts > 6

    exchange(sender, receiver(), begun, loses=dies)
    happened = exchange(sender, receiver(), sender.tick(now=10.0), now=10.0)

    assert happened == [Arrived(b"p", Kind.SUBMIT, bytearray(BODY)), Delivered(b"", "k")]


def test_a_new_offer_replaces_what_the_same_peer_has_not_finished():
    budget = ByteBudget(8 * MEBIBYTE)
    taker = PartReceiver(budget, max_bytes=4 * MEBIBYTE, kinds=KINDS)

    for number in range(1, 100):
        taker.offered(b"p", Offer(number, Kind.SUBMIT, 4 * MEBIBYTE), now=0.0)

    assert budget.used == 4 * MEBIBYTE
    assert len(taker) == 1


def test_who_never_goes_on_loses_its_reservation():
    budget = ByteBudget(8 * MEBIBYTE)
    taker = PartReceiver(budget, max_bytes=4 * MEBIBYTE, kinds=KINDS)
    taker.offered(b"p", Offer(1, Kind.SUBMIT, 4 * MEBIBYTE), now=0.0)

    taker.tick(now=STALLED_SECONDS - 0.1)
    assert budget.used == 4 * MEBIBYTE

    taker.tick(now=STALLED_SECONDS)
    assert budget.used == 0
    assert len(taker) == 0


def test_who_goes_on_byte_by_byte_loses_it_too():
    budget = ByteBudget(8 * MEBIBYTE)
    taker = PartReceiver(budget, max_bytes=4 * MEBIBYTE, kinds=KINDS)
    taker.offered(b"p", Offer(1, Kind.SUBMIT, 4 * MEBIBYTE), now=0.0)
    deadline = GRACE_SECONDS + 4 * MEBIBYTE / SLOWEST_BYTES_PER_SECOND

    now = 0.0
    for offset in range(int(deadline) + 2):
        taker.took(b"p", Part(1, offset, b"x"), now=now)
        taker.tick(now=now)
        now += 1.0

    assert budget.used == 0


def test_who_waits_in_line_and_is_not_heard_again_loses_its_place():
    budget = ByteBudget(MEBIBYTE)
    taker = PartReceiver(budget, max_bytes=MEBIBYTE, kinds=KINDS)
    budget.take(MEBIBYTE)
    taker.offered(b"gone", Offer(1, Kind.SUBMIT, MEBIBYTE), now=0.0)

    budget.release(MEBIBYTE)

    assert taker.tick(now=LAST_RETURN_SECONDS + GRACE_SECONDS + 1) == []
    assert budget.used == 0


@pytest.mark.parametrize(
    "part",
    [
        Part(2, 0, b"x" * 10),
        Part(1, 5, b"x" * 10),
        Part(1, -1, b"x" * 10),
        Part(1, 0, b""),
        Part(1, 0, b"x" * (WINDOW_BYTES + 1)),
    ],
)
def test_a_part_that_does_not_belong_there_is_dropped(part):
    taker = receiver()
    taker.offered(b"p", Offer(1, Kind.SUBMIT, MEBIBYTE), now=0.0)

    assert taker.took(b"p", part, now=0.0) == []
    assert taker.took(b"stranger", part, now=0.0) == []


@pytest.mark.parametrize(
    "grant", [Grant(1, -1, 9), Grant(1, 2**62, 2**62), Grant(9, 0, 100), Grant(1, 5, 2**62)]
)
def test_a_grant_that_makes_no_sense_brings_a_sender_to_send_no_more_than_it_may(grant):
    sender = PartSender()
    sender.put(Kind.SUBMIT, BODY * 4, now=0.0)

    parts = said(sender.granted(grant, now=0.0), Kind.PART)

    assert sum(len(part.data) for part in parts) <= 4 * WINDOW_BYTES


def test_a_peer_that_never_answers_is_given_up_where_that_is_wanted():
    sender = PartSender(b"p", give_up_after=10.0)
    sender.put(Kind.RESULTS, BODY, now=0.0, key=1)
    sender.put(Kind.RESULTS, BODY, now=5.0, key=2)

    assert [type(effect) for effect in sender.tick(now=5.0)] == [Say]
    dropped = sender.tick(now=10.0)

    assert [(effect.key, type(effect)) for effect in dropped] == [
        (1, Undelivered),
        (2, Undelivered),
    ]
    assert sender.size == 0


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 3 * WHOLE_BYTES), min_size=1, max_size=4),
    fate=st.lists(st.sampled_from(["lost", "twice", "once", "once", "once"]), max_size=80),
    peers=st.integers(1, 3),
)
def test_whatever_is_lost_or_repeated_all_arrives_once_in_order_and_within_the_budget(
    sizes, fate, peers
):
    budget = ByteBudget(2 * WHOLE_BYTES)
    taker = PartReceiver(budget, max_bytes=4 * WHOLE_BYTES, kinds=KINDS)
    senders = {bytes([name]): PartSender(bytes([name])) for name in range(peers)}
    arrived = {peer: [] for peer in senders}
    fates, now = iter(fate), 0.0
    on_their_way = []
    for sender in senders.values():
        for at, size in enumerate(sizes):
            on_their_way += sender.put(Kind.SUBMIT, bytes([at]) * size, now=now, key=at)
    for _ in range(400):
        while on_their_way:
            effect = on_their_way.pop(0)
            if isinstance(effect, Arrived):
                arrived[effect.peer].append(bytes(effect.body))
                budget.release(len(effect.body))
                on_their_way += taker.admit(now=now)
            elif isinstance(effect, SayWhole):
                arrived[effect.peer].append(effect.body)
            elif isinstance(effect, Say):
                for _ in range({"lost": 0, "twice": 2, "once": 1}[next(fates, "once")]):
                    sender, body = senders[effect.peer], effect.body
                    match effect.kind:
                        case Kind.OFFER:
                            on_their_way += taker.offered(effect.peer, body, now=now)
                        case Kind.PART:
                            on_their_way += taker.took(effect.peer, body, now=now)
                        case Kind.GRANT:
                            on_their_way += sender.granted(body, now=now)
                        case Kind.DECLINE:
                            on_their_way += sender.declined(body, now=now)
            assert budget.used <= max(budget.limit, 3 * WHOLE_BYTES)
        now += 1.0
        on_their_way += taker.tick(now=now)
        for sender in senders.values():
            on_their_way += sender.tick(now=now)
        if not on_their_way and not any(senders.values()):
            break
    expected = [bytes([at]) * size for at, size in enumerate(sizes)]
    assert arrived == dict.fromkeys(senders, expected)
    assert budget.used == 0
