"""From the fields of a form to a search."""

from __future__ import annotations

import pytest

from shunter.model.job import Status
from shunter.model.scope import EVERYTHING, JobScope
from shunter.page.filters import STATUSES, filter_of


def test_fields_become_a_search() -> None:
    chosen = filter_of({"status": "failed", "type": " add ", "error": "no route", "x": "y"})
    search = chosen.search(EVERYTHING)
    assert (search.status, search.type, search.text) == (Status.FAILED, "add", "no route")
    assert search.namespace is None
    assert chosen.address(after="7 8") == "status=failed&type=add&error=no+route&after=7+8"


def test_who_sees_one_namespace_searches_in_it() -> None:
    assert filter_of({}).search(JobScope("shop")).namespace == "shop"
    assert filter_of({}).search(JobScope("")).namespace == ""


@pytest.mark.parametrize("status", STATUSES)
def test_each_status_that_can_be_chosen_is_one(status: str) -> None:
    search = filter_of({"status": status}).search(EVERYTHING)
    assert search.status is STATUSES[status]
    assert status in (search.status.word, "delayed"), "it is called as jobs show it"
    assert search.is_delayed == (status == "delayed")


@pytest.mark.parametrize(
    ("field", "text", "label"),
    [
        ("status", "odd", "status"),
        ("type", "<b>", "type"),
        ("since", "yesterday", "created from"),
        ("worker", "a b", "worker"),
        ("until", "1e9", "created until"),
    ],
)
def test_what_can_not_be_meant_is_said_and_left_out(field: str, text: str, label: str) -> None:
    chosen = filter_of({field: text})
    assert len(chosen.faults) == 1
    assert chosen.faults[0].startswith(f"{label}:"), "as the form calls it"
    assert chosen.asked == {}


def test_times_are_utc_unless_they_say_otherwise() -> None:
    chosen = filter_of({"since": "2026-05-31 14:00", "until": "2026-05-31T14:00:00+02:00"})
    search = chosen.search(EVERYTHING)
    assert search.created_from is not None
    assert search.created_until == search.created_from - 7200


def test_the_jobs_of_a_schedule_are_found_by_their_key() -> None:
    assert filter_of({"schedule": "backup"}).search(EVERYTHING).key_prefix == "schedule/backup/"
