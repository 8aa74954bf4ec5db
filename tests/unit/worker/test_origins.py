"""A job counts for the dispatcher it came from until that one's side is done with it."""

from __future__ import annotations

from shunter.worker.zmq.account import Account
from shunter.worker.zmq.origins import Origins


def account(dispatcher_id: str, store: str = "s") -> Account:
    made = Account()
    made.dispatcher_id, made.store = dispatcher_id, store
    return made


def test_a_reported_job_counts_until_its_report_is_confirmed() -> None:
    origins, one = Origins(), account("d-1")
    origins.took(["j-1", "j-2"], one)

    origins.reported(["j-1"])
    assert origins.counts() == {"d-1": 2}
    origins.confirmed(["j-1"])

    assert origins.counts() == {"d-1": 1}
    assert origins.of("j-1") is None


def test_a_job_given_back_counts_until_a_later_beat_is_answered() -> None:
    origins, one, two = Origins(), account("d-1"), account("d-2")
    origins.took(["j-1"], one)

    origins.returned(["j-1"], one, after=7)

    for other, beat in ((one, 7), (two, 8)):
        origins.answered(other, beat)
        assert origins.counts() == {"d-1": 1}
    origins.answered(one, 8)
    assert origins.counts() == {}


def test_a_job_given_back_on_a_connection_that_is_gone_counts_no_more() -> None:
    origins, one = Origins(), account("d-1")
    origins.took(["j-1"], one)
    origins.returned(["j-1"], one, after=7)

    origins.lost(one)

    assert origins.counts() == {}


def test_a_job_counts_for_the_dispatcher_that_gave_it_not_for_its_successor() -> None:
    origins, one = Origins(), account("d-1")
    origins.took(["j-1"], one)
    one.dispatcher_id = "d-2"
    origins.took(["j-2"], one)

    assert origins.counts() == {"d-1": 1, "d-2": 1}


def test_only_jobs_at_work_keep_their_stores_lease_needed() -> None:
    origins = Origins()
    origins.took(["j-1"], account("d-1", "one"))
    origins.took(["j-2"], account("d-2", "two"))

    origins.reported(["j-1"])

    assert origins.stores() == {"two"}
