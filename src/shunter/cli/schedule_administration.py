"""What `shunter schedule` does, told to people or programs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.table import Table

from shunter.app import load_app
from shunter.cli.job_listings import client_of
from shunter.cli.terminal import Terminal, json_line
from shunter.cli.unserved import note_if_unserved
from shunter.client.schedules import PutOptions
from shunter.codec import is_sealed, label_of
from shunter.errors import SettingsError
from shunter.model.schedule import Schedule
from shunter.model.timing import Cron, Every, Timing
from shunter.settings import Settings

SOURCE = "the command line"

LONGEST_WHOLE_NAME = 32
"""Longer names are broken into lines, so that the other columns have room."""


class ScheduleAdministration:
    """One command's dealings with a dispatcher."""

    def __init__(self, settings: Settings, namespace: str | None, *, as_json: bool) -> None:
        self._settings, self._namespace, self._as_json = settings, namespace, as_json
        self._out = Terminal(soft_wrap=True)

    def show_all(self) -> None:
        """List schedules."""
        with client_of(self._settings) as client:
            found = client.schedules.list(self._namespace)
        if self._as_json:
            self._out.print_json(json_line([document(it) for it in found]))
        else:
            Terminal().print(_table(found))

    def put(
        self,
        name: str,
        job_type: str,
        payload: bytes,
        options: PutOptions,
        job_options: dict[str, Any],
        app_spec: str | None,
    ) -> None:
        """Make a schedule or change it."""
        codec = None if app_spec is None else load_app(app_spec).codec
        with client_of(self._settings, codec=codec) as client:
            schedules = client.with_options(**job_options).schedules
            found = schedules.put_raw(name, job_type, payload, options, namespace=self._namespace)
            self._say(found, f"{name}: {_next(found)}")
            if not self._as_json:
                note_if_unserved(client, job_type)

    def pause(self, name: str) -> None:
        """Pause a schedule."""
        with client_of(self._settings) as client:
            self._say(client.schedules.pause(name, self._namespace), f"{name}: paused")

    def resume(self, name: str) -> None:
        """Let a schedule go on."""
        with client_of(self._settings) as client:
            found = client.schedules.resume(name, self._namespace)
        self._say(found, f"{name}: {_next(found)}")

    def remove(self, name: str) -> None:
        """Remove a schedule."""
        with client_of(self._settings) as client:
            client.schedules.remove(name, self._namespace)
        self._out.print(json_line({"name": name}) if self._as_json else f"{name}: removed")

    def trigger(self, name: str) -> None:
        """Make a job now."""
        with client_of(self._settings) as client:
            self._print_ids([client.schedules.trigger(name, self._namespace).id])

    def backfill(self, name: str, begin: str, end: str) -> None:
        """Make the jobs of past ticks."""
        first, last = moment_from("--from", begin), moment_from("--to", end)
        with client_of(self._settings) as client:
            made = client.schedules.backfill(name, first, last, self._namespace)
        self._print_ids([job.id for job in made])

    def _say(self, schedule: Schedule, text: str) -> None:
        if self._as_json:
            self._out.print_json(json_line(document(schedule)))
        else:
            self._out.print(text)

    def _print_ids(self, ids: Sequence[str]) -> None:
        if self._as_json:
            self._out.print(json_line({"job_ids": ids}))
            return
        for job_id in ids:
            self._out.print(job_id)
        if not ids:
            self._out.print("no ticks in that time")


def timing_from(cron: str | None, tz: str, every: float | None) -> Timing:
    """Return when a schedule comes, or raise a SettingsError."""
    if (cron is None) is (every is None):
        found = "neither" if cron is None else "both"
        raise SettingsError(SOURCE, "--cron, --every", found, "one of the two")
    return Every(every) if every is not None else Cron(cron or "", tz)


def moment_from(flag: str, text: str) -> datetime:
    """Read a point in time; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        allowed = "a date, 2026-03-01, or a time, 2026-03-01T08:00+01:00"
        raise SettingsError(SOURCE, flag, repr(text), allowed) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def document(schedule: Schedule) -> dict[str, Any]:
    """Write a schedule for programs, with the label of a payload that is encrypted."""
    shown, payload = schedule.as_dict(), schedule.job.payload
    if is_sealed(payload):
        shown["job"]["payload"]["encrypted"] = label_of(payload)
    return shown


def _table(schedules: Sequence[Schedule]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    columns: tuple[str, ...] = ("name", "type", "when", "overlap", "next", "last", "state")
    if any(schedule.namespace for schedule in schedules):
        columns = ("namespace", *columns)
    # A name is there to be copied into the next command.
    is_whole = all(len(schedule.name) <= LONGEST_WHOLE_NAME for schedule in schedules)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column == "name" and is_whole)
    for it in schedules:
        row = (
            it.name,
            it.job.type,
            _when(it.terms.timing),
            it.terms.overlap,
            _minute(it.next),
            _minute(it.last),
            it.error or ("paused" if it.is_paused else ""),
        )
        table.add_row(*((it.namespace, *row) if columns[0] == "namespace" else row))
    return table


def _when(timing: Timing) -> str:
    if isinstance(timing, Cron):
        return f"{timing.text} {timing.tz}"
    return f"every {timing.seconds:g} s"


def _next(schedule: Schedule) -> str:
    if schedule.is_paused:
        return "paused"
    return f"next {_minute(schedule.next)}" if schedule.next is not None else "never again"


def _minute(at: float | None) -> str:
    return "" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
