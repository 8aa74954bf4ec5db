"""Reports are kept until somebody has confirmed them."""

from __future__ import annotations

from shunter.model.report import Held, Report
from shunter.wire.batches import BATCH_BYTES
from shunter.worker.zmq.outbox import RESEND_SECONDS, Outbox

ONE, TWO = Report("j-1", 1, result=b"\x01"), Report("j-2", 3, result=b"\x02")


def test_a_report_is_held_until_its_batch_is_confirmed() -> None:
    outbox = Outbox()
    [(number, batch)] = outbox.add([ONE, TWO], now=0.0)
    assert list(outbox.held()) == [Held("j-1", 1), Held("j-2", 3)]

    outbox.confirmed([number, 99])

    assert batch == (ONE, TWO)
    assert len(outbox) == 0


def test_what_nobody_confirms_is_offered_again_and_again() -> None:
    outbox = Outbox()
    outbox.add([ONE], now=0.0)

    assert outbox.stale(now=RESEND_SECONDS - 0.1) == []
    assert outbox.stale(now=RESEND_SECONDS) == [(1, (ONE,))]
    assert outbox.stale(now=RESEND_SECONDS + 0.1) == []
    assert outbox.stale(now=2 * RESEND_SECONDS) == [(1, (ONE,))]


def test_large_results_travel_in_batches_of_their_own() -> None:
    large = Report("j-3", 1, result=b"x" * BATCH_BYTES)

    batches = Outbox().add([ONE, large, TWO], now=0.0)

    assert [batch for _, batch in batches] == [(ONE,), (large,), (TWO,)]


def test_what_is_large_may_be_on_its_way_for_longer() -> None:
    outbox = Outbox()
    large = Report("j-3", 1, result=b"x" * 1_000_000)
    outbox.add([large], now=0.0)

    assert outbox.stale(now=RESEND_SECONDS + 9.9) == []
    assert outbox.stale(now=RESEND_SECONDS + 10.1) == [(1, (large,))]
