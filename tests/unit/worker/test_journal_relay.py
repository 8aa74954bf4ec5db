"""Asks on their way to a dispatcher: repeated until answered, chunks put together."""

from __future__ import annotations

from shunter.model.journal import EntryKind, chunk_key, decode_chunks
from shunter.wire.messages import Assignment, Recalled
from shunter.worker.asks import JournalAnswer, KeepAsk, RecallAsk, RunAsk, RunAsked
from shunter.worker.zmq.journal_relay import JournalRelay

JOB = Assignment("j", 1, "t", b"\xc0", None, None)


def step(number: int, name: str, *marks: KeepAsk) -> RunAsked:
    return RunAsked(7, JOB, RunAsk(number, KeepAsk(EntryKind.STEP, name, b"\x01", marks=marks)))


def chunk(number: int, place: int, body: bytes = b"\x01") -> RunAsked:
    ask = KeepAsk(EntryKind.CHUNKS, chunk_key(1, place), body)
    return RunAsked(7, JOB, RunAsk(number, ask))


def test_a_step_goes_with_the_marks_before_it_and_is_answered_once() -> None:
    relay = JournalRelay()
    relay.ask(step(3, "pay", KeepAsk(EntryKind.STEP, "rest", b"\xc0")))
    requests = relay.take_unsent()
    number = relay.sent(requests, now=0.0)

    assert [keep.key for request in requests for keep in request.keeps] == ["rest", "pay"]
    assert list(relay.kept(number, [True, True])) == [(7, 3, JournalAnswer(is_kept=True))]
    assert list(relay.kept(number, [True, True])) == []
    assert len(relay) == 0


def test_what_was_refused_in_part_is_refused() -> None:
    relay = JournalRelay()
    relay.ask(step(3, "pay", KeepAsk(EntryKind.STEP, "rest", b"\xc0")))
    number = relay.sent(relay.take_unsent(), now=0.0)

    assert list(relay.kept(number, [True, False])) == [(7, 3, JournalAnswer(is_kept=False))]


def test_an_ask_that_is_not_answered_is_sent_again_while_its_run_is_open() -> None:
    relay = JournalRelay()
    relay.ask(step(3, "pay"))
    sent = relay.take_unsent()
    relay.sent(sent, now=0.0)

    relay.repeat(now=1.0, is_open={7})
    assert relay.take_unsent() == []
    relay.repeat(now=2.0, is_open={7})
    assert relay.take_unsent() == sent
    relay.sent(sent, now=2.0)
    relay.repeat(now=9.0, is_open=set())
    assert relay.take_unsent() == []


def test_chunks_that_come_while_others_are_under_way_become_one_entry() -> None:
    relay = JournalRelay()
    for place in range(5):
        relay.ask(chunk(0, place, bytes([place])))
    [first] = relay.take_unsent()
    number = relay.sent([first], now=0.0)
    relay.ask(chunk(4, 5, b""))  # wants to know that all is kept
    assert relay.take_unsent() == []

    assert list(relay.kept(number, [True])) == []
    [rest] = relay.take_unsent()
    [keep] = rest.keeps

    assert decode_chunks(first.keeps[0].body) == [b"\x00"]
    assert (keep.key, decode_chunks(keep.body)) == (
        chunk_key(1, 1),
        [bytes([n]) for n in (1, 2, 3, 4)],
    )
    number = relay.sent([rest], now=0.0)
    assert list(relay.kept(number, [True])) == [(7, 4, JournalAnswer(is_kept=True))]


def test_who_asks_whether_all_is_kept_when_it_is_hears_it_at_once() -> None:
    relay = JournalRelay()
    relay.ask(chunk(9, 0, b""))

    assert (relay.take_unsent(), relay.ready) == ([], [(7, 9, JournalAnswer(is_kept=True))])


def test_a_recall_is_answered_with_what_came() -> None:
    relay = JournalRelay()
    relay.ask(RunAsked(7, JOB, RunAsk(2, RecallAsk())))
    number = relay.sent(relay.take_unsent(), now=0.0)
    found = Recalled(number, signals=3)

    assert list(relay.recalled(number, found)) == [(7, 2, JournalAnswer(recalled=found))]


def log(text: bytes, key: int = 7) -> RunAsked:
    return RunAsked(key, JOB, RunAsk(0, KeepAsk(EntryKind.LOG, "log", text)))


def test_of_what_a_run_has_printed_only_the_last_is_sent_and_nobody_is_answered() -> None:
    relay = JournalRelay()
    for ask in (log(b"a"), step(3, "pay"), log(b"other", key=8), log(b"ab")):
        relay.ask(ask)

    requests = relay.take_unsent()
    number = relay.sent(requests, now=0.0)

    bodies = [keep.body for it in requests for keep in it.keeps if keep.kind is EntryKind.LOG]
    assert bodies == [b"other", b"ab"]
    answers = list(relay.kept(number, [True, True, True]))
    assert answers == [(7, 3, JournalAnswer(is_kept=True))]


def test_logs_that_no_dispatcher_takes_do_not_pile_up() -> None:
    relay = JournalRelay()
    for second in range(10):
        relay.ask(log(b"x" * second))
        relay.sent(relay.take_unsent(), now=float(second))
        relay.repeat(now=float(second), is_open={7})

    assert len(relay) <= 3
