"""Results for plain clients that come back."""

from __future__ import annotations

from shunter.gateway.undelivered_results import KEPT_SECONDS, MAX_KEPT_BYTES, UndeliveredResults

RESULT = [b"client", b"", b"42"]


def test_a_result_is_offered_until_it_is_taken() -> None:
    late, sent = UndeliveredResults(), []
    assert late.keep(RESULT, now=0.0)

    assert late.try_again(lambda message: False, now=1.0) == 0
    assert late.try_again(lambda message: bool(sent.append(message)) or True, now=2.0) == 0

    assert sent == [RESULT]
    assert len(late) == 0


def test_a_result_that_nobody_fetches_is_dropped_in_the_end() -> None:
    late = UndeliveredResults()
    late.keep(RESULT, now=0.0)

    assert late.try_again(lambda message: False, now=KEPT_SECONDS) == 1
    assert len(late) == 0


def test_there_is_room_for_so_much_and_no_more() -> None:
    late = UndeliveredResults()

    assert late.keep([b"x" * MAX_KEPT_BYTES], now=0.0)
    assert not late.keep(RESULT, now=0.0)
