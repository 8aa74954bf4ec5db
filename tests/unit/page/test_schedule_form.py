"""The form of a schedule: what it shows goes back unchanged, and nonsense is refused by field."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import asdict

from shunter.model.schedule import Overlap, Schedule, ScheduleTerms
from shunter.model.submission import Submission
from shunter.model.timing import Cron, Every, Timing
from shunter.page.schedule_form import fields_of, schedule_draft
from shunter.wire.tagged_values import BadDocument


def schedule(timing: Timing, payload: object = ()) -> Schedule:
    return Schedule(
        name="nightly",
        terms=ScheduleTerms(timing=timing, overlap=Overlap.ONE, catch_up=60.0, jitter=1.5),
        job=Submission("nightly", "add", msgspec.msgpack.encode(payload)),
        created=1.0,
        updated=1.0,
    )


@pytest.mark.parametrize("timing", [Cron("0 3 * * *", "Europe/Berlin"), Every(90.0)])
def test_what_the_form_shows_leaves_a_schedule_as_it_is(timing: Timing) -> None:
    known = schedule(timing, [1, {"b": b"\x00"}])
    draft = schedule_draft(known, asdict(fields_of(known)))
    assert (draft.terms, draft.job, draft.is_paused) == (known.terms, known.job, None)


def test_fields_that_were_changed_change_the_schedule() -> None:
    known = schedule(Cron("0 3 * * *"))
    written = {"cron": "", "every": "5", "overlap": "all", "payload": "[7]"}
    draft = schedule_draft(known, {**asdict(fields_of(known)), **written})
    assert draft.terms.timing == Every(5.0)
    assert draft.terms.overlap is Overlap.ALL
    assert msgspec.msgpack.decode(draft.job.payload) == [7]


@pytest.mark.parametrize(
    ("field", "changed"),
    [
        ("cron", {"cron": ""}),
        ("cron", {"every": "5"}),
        ("every", {"cron": "", "every": "soon"}),
        ("overlap", {"overlap": "<b>"}),
        ("jitter", {"jitter": ""}),
    ],
)
def test_nonsense_is_refused_by_its_field(field: str, changed: dict[str, str]) -> None:
    known = schedule(Cron("0 3 * * *"))
    with pytest.raises(BadDocument) as refused:
        schedule_draft(known, {**asdict(fields_of(known)), **changed})
    assert refused.value.field == field
