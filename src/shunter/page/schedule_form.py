"""The form by which people change a schedule. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shunter.model.document import sealed_data_at
from shunter.model.schedule import Overlap, Schedule, ScheduleDraft, ScheduleTerms
from shunter.model.timing import Cron, Every, Timing
from shunter.shown_text import shown_json
from shunter.wire.checked_documents import parsed
from shunter.wire.tagged_values import BadDocument, document_of, tagged_document


class ScheduleFields(Struct, frozen=True):
    """What stands in the form at first; `payload` is None where it can't be written as text."""

    cron: str
    tz: str
    every: str
    overlap: str
    catch_up: str
    jitter: str
    payload: str | None


def fields_of(schedule: Schedule) -> ScheduleFields:
    """Return the form of a schedule as it is."""
    terms, timing = schedule.terms, schedule.terms.timing
    is_cron = isinstance(timing, Cron)
    payload = schedule.job.payload
    return ScheduleFields(
        timing.text if isinstance(timing, Cron) else "",
        timing.tz if isinstance(timing, Cron) else "UTC",
        "" if is_cron or not isinstance(timing, Every) else f"{timing.seconds:g}",
        str(terms.overlap),
        f"{terms.catch_up:g}",
        f"{terms.jitter:g}",
        None if sealed_data_at(payload) is not None else _text(payload),
    )


def schedule_draft(schedule: Schedule, fields: Mapping[str, str]) -> ScheduleDraft:
    """Read what a schedule is to be; what the form does not have stays as it is."""
    terms = ScheduleTerms(
        timing=_timing(fields),
        overlap=_overlap(fields.get("overlap", "").strip()),
        catch_up=_seconds(fields, "catch_up"),
        jitter=_seconds(fields, "jitter"),
    )
    job, written = schedule.job, fields.get("payload")
    if written is not None and sealed_data_at(job.payload) is None:
        job = replace(job, payload=document_of(parsed(written.encode()), "payload"))
    return ScheduleDraft(terms=terms, job=job)


def _timing(fields: Mapping[str, str]) -> Timing:
    cron, every = fields.get("cron", "").strip(), fields.get("every", "").strip()
    if bool(cron) == bool(every):
        raise BadDocument("cron", "write either the five fields of cron or a number of seconds")
    if every:
        return Every(_seconds(fields, "every"))
    return Cron(cron, fields.get("tz", "").strip() or "UTC")


def _overlap(text: str) -> Overlap:
    try:
        return Overlap(text)
    except ValueError:
        known = ", ".join(Overlap)
        raise BadDocument("overlap", f"found {text[:32]!r}; choose one of {known}") from None


def _seconds(fields: Mapping[str, str], name: str) -> float:
    text = fields.get(name, "").strip()
    try:
        return float(text)
    except ValueError:
        raise BadDocument(name, f"found {text[:32]!r}; write a number of seconds") from None


def _text(payload: bytes) -> str:
    document = msgspec.json.encode(tagged_document(payload))
    return shown_json(msgspec.json.format(document, indent=2).decode())
