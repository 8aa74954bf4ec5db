"""`shunter jobs`, `job`, `workers` and `cancel`: what is there, told to people or programs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from rich import box
from rich.table import Table
from rich.text import Text

from shunter.cli.kept_steps import print_steps, step_document, waits_text
from shunter.cli.stages import table_of_job
from shunter.cli.terminal import Terminal, json_line
from shunter.client import Client
from shunter.client.sealed_values import shown_job
from shunter.codec import Codec, is_sealed, label_of, shown_label, shown_sealed
from shunter.errors import SettingsError
from shunter.flow.terms import FLOW_JOB
from shunter.model.job import Callback, Job, Status, in_one_line
from shunter.model.job_log import LogRestart, is_log_told
from shunter.model.pause import all_of
from shunter.model.workflow import JobEdge
from shunter.settings import Settings
from shunter.shown_text import shown

ANSWER_SECONDS = 5.0
"""How long a command waits for a dispatcher to answer."""

WIDE = 120
"""From so many columns on, a list of jobs has one for workers, whose ids are long."""

_COLOURS = {
    Status.COMPLETED: "green",
    Status.FAILED: "red",
    Status.CANCELLED: "yellow",
    Status.IN_PROGRESS: "cyan",
}


def client_of(settings: Settings, *, codec: Codec | None = None) -> Client:
    """Return a client of the dispatchers that the settings name, with the key they name."""
    return Client(
        *settings.client_dispatchers,
        timeout=ANSWER_SECONDS,
        codec=codec,
        key_file=settings.auth.key_file or None,
    )


def jobs(
    settings: Settings,
    *,
    status: str | None,
    job_type: str | None,
    worker_id: str | None,
    namespace: str | None,
    limit: int,
    before: str | None,
    as_json: bool,
    codec: Codec | None = None,
) -> int:
    """List jobs; return the exit code."""
    console = Terminal()
    with client_of(settings, codec=codec) as client:
        found = client.jobs(
            status=None if status is None else status_named(status),
            type=job_type,
            worker_id=worker_id,
            namespace=namespace,
            limit=limit,
            before=before,
        )
        if as_json:
            console.print_json(json_line([document(job) for job in found]))
            return 0
        backlog = client.standing().backlog
    console.print(_listed(found, width=console.width))
    totals: dict[Status, int] = {}
    for each, state, count in backlog:
        if job_type in (None, each):
            totals[state] = totals.get(state, 0) + count
    counted = ", ".join(f"{totals[state]:,} {state.word}" for state in Status if state in totals)
    console.print(counted or "no jobs yet")
    return 0


def _listed(found: list[Job], *, width: int) -> Table:
    """Make a table of jobs, each on one line; who did them is shown where there is room.

    Ids can be copied, however narrow the terminal: of types the end is left out.
    """
    now, is_wide = time.time(), width >= WIDE
    names = ["id", "type", "status", "tries", "age", "took", *(["worker"] if is_wide else [])]
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for name in names:
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    rows = [_cells(job, now)[: len(names)] for job in found]
    widths = [max(len(cell) for cell in column) for column in zip(names, *rows, strict=True)]
    room = max(len("type"), width - sum(widths) - len(names) + 1 + widths[1])
    for job, (job_id, job_type, status, *rest) in zip(found, rows, strict=True):
        short = job_type if len(job_type) <= room else f"{job_type[: room - 1]}…"
        table.add_row(job_id, short, Text(status, style=_COLOURS.get(job.status, "")), *rest)
    return table


def _cells(job: Job, now: float) -> list[str]:
    run = job.execution
    began = run.given_at if run.started is None else run.started
    took = "" if began is None else _span((run.ended or now) - began)
    age, tries = _span(now - job.created), str(job.attempt)
    return [job.id, shown(job.type), job.status.word, tries, age, took, run.worker_id or ""]


def job(settings: Settings, job_id: str, *, as_json: bool, codec: Codec | None = None) -> int:
    """Tell one job's story; return the exit code."""
    console = Terminal()
    with client_of(settings, codec=codec) as client:
        record = client.job(job_id)
        log = client.log(job_id) if is_log_told(record) else record.log
        found = shown_job(replace(record, log=log))
        steps = client.journal(job_id) if found.attempt else []
        edges = client.runs.waits_for(job_id) if found.when is not None else []
        calls = client.jobs(job_ids=[found.hook_job]) if found.hook_job is not None else []
    steps.sort(key=lambda entry: entry.at)
    if as_json:
        listed = [step_document(entry) for entry in steps]
        console.print_json(json_line(document(found) | {"steps": listed}))
        return 0
    console.print(_story(found, edges, calls))
    print_steps(console, steps)
    if (stages := table_of_job(found)) is not None:
        console.print(stages)
    _print_attempts(console, found)
    for title, text in (
        ("error", found.error.traceback if found.error else ""),
        ("log", found.log),
    ):
        if text:
            console.rule(title, align="left")
            console.print(text.rstrip(), highlight=False)
    return 0


def follow(settings: Settings, job_id: str, *, codec: Codec | None = None) -> int:
    """Print what a job prints until it has ended; return 0 if it has completed."""
    console, err = Terminal(), Terminal(stderr=True)
    with client_of(settings, codec=codec) as client:
        is_line_open = False
        for each in client.log_pieces(job_id):
            if isinstance(each, LogRestart):
                err.print(f"attempt {each.attempt}:", style="dim", highlight=False)
                continue
            text = shown_sealed(each.text)
            is_line_open = not text.endswith("\n")
            console.print(text, end="", highlight=False, soft_wrap=True)
        if is_line_open:
            console.print()
        ended = shown_job(client.job(job_id))
    reason = f": {in_one_line(ended.error)}" if ended.error else ""
    err.print(f"{ended.id}: {ended.status.word}{reason}", highlight=False, soft_wrap=True)
    return 0 if ended.status is Status.COMPLETED else 1


def workers(settings: Settings, *, as_json: bool) -> int:
    """List workers; return the exit code."""
    console = Terminal()
    with client_of(settings) as client:
        found = client.workers()
        held_back = all_of([] if as_json else client.pauses())
    if as_json:
        console.print_json(json_line([worker.as_dict() for worker in found]))
        return 0
    now = time.time()
    versions = ("version",) if any(worker.version for worker in found) else ()
    table = _table("id", "level", "state", "slots", "jobs", "heard", *versions, "does")
    for worker in sorted(found, key=lambda worker: (worker.state != "alive", worker.id)):
        table.add_row(
            worker.id,
            worker.kind,
            "draining" if worker.state == "alive" and held_back.drains(worker) else worker.state,
            str(worker.max_jobs),
            str(len(worker.jobs)),
            _ago(worker.last_pinged, now),
            *([worker.version] if versions else []),
            ", ".join(handler.type for handler in worker.handlers),
        )
    console.print(table)
    for worker in found:
        if worker.last_error:
            console.print(f"{worker.id}: {worker.last_error}")
    return 0


def cancel(settings: Settings, job_ids: list[str], *, as_json: bool) -> int:
    """Cancel jobs; return 0 if all of them could be."""
    console = Terminal()
    with client_of(settings) as client:
        receipts = client.cancel(job_ids)
    if as_json:
        rows = [{"id": r.job_id, "cancelled": not r.reason, "reason": r.reason} for r in receipts]
        console.print_json(json_line(rows))
    else:
        for receipt in receipts:
            console.print(receipt.reason or f"{receipt.job_id}: cancelled")
    return 1 if any(receipt.reason for receipt in receipts) else 0


def document(job: Job) -> dict[str, Any]:
    """Write a job for programs: payload and result decoded, its status as letter and word."""
    shown: dict[str, Any] = msgspec.to_builtins(shown_job(job))
    for field in ("payload", "result"):
        packed = getattr(job, field)
        shown[field] = None if packed is None else _value(packed)
        if job.payload is None:
            del shown[field]  # a list has neither, and null would say that there is none
    return {"id": job.id, "status": job.status, "word": job.status.word, **shown}


def _story(job: Job, edges: Sequence[JobEdge] = (), calls: Sequence[Job] = ()) -> Table:
    now, run = time.time(), job.execution
    story = Table.grid(padding=(0, 2))
    rows: list[tuple[str, str | Text]] = [
        ("job", job.id),
        ("type", job.type),
        ("status", _coloured(job.status)),
        ("priority", str(job.priority)),
        ("attempt", f"{job.attempt} ({job.failures} failures, {job.losses} losses)"),
        ("created", _when(job.created, now)),
    ]
    if job.scheduled is not None:
        rows.append(("scheduled", _when(job.scheduled, now)))
    if job.wait_until:
        rows.append(("waits until", _when(job.wait_until, now)))
    if job.waits is not None and job.status is Status.WAITING:
        rows.append(("waits for", f"{waits_text(job.waits)}, since {_when(job.waits.since, now)}"))
    if job.workflow or job.run:
        rows.append(("run", f"{job.run or ''} of {job.workflow or 'no workflow'}"))
    if edges:
        rows.append(("after", _parents(job, edges)))
    if job.rerun_of:
        rows.append(("rerun of", job.rerun_of))
    if job.unique_key:
        rows.append(("unique key", job.unique_key))
    if job.keys:
        rows.append(("keys", ", ".join(f"{name}={job.keys[name]}" for name in sorted(job.keys))))
    if job.namespace:
        rows.append(("namespace", job.namespace))
    if job.dispatcher:
        rows.append(("dispatcher", f"{job.dispatcher.id}, {_when(job.dispatcher.date, now)}"))
    if run.worker_id:
        rows.append(("worker", run.worker_id))
    if job.version:
        rows.append(("version", job.version))
    if run.sent:
        rows.append(("sent", _when(run.sent, now)))
    if run.started:
        waited = max(0.0, run.started - max(job.created, job.not_before or 0.0))
        after = f", after {_span(waited)}" if job.attempt == 1 else ""
        rows.append(("started", _when(run.started, now) + after))
    if run.ended:
        took = f", took {_span(run.ended - run.started)}" if run.started else ""
        rows.append(("ended", _when(run.ended, now) + took))
    if job.progress:
        total = "" if job.progress.total is None else f" of {job.progress.total:g}"
        note = f", {job.progress.note}" if job.progress.note and job.type != FLOW_JOB else ""
        rows.append(("progress", f"{job.progress.done:g}{total}{note}"))
    if job.payload is not None:
        rows.append(("payload", _short(job.payload)))
    if job.result is not None:
        rows.append(("result", _short(job.result)))
    if job.error:
        ended_by = f" (ended by {job.error.ended_by})" if job.error.ended_by else ""
        rows.append(("error", f"{job.error.kind}: {job.error.message}{ended_by}"))
    if job.error and job.error.is_told:
        rows.append(("hook", "on_final_failure was called by its last run"))
    if job.hook_job:
        rows.append(("hook", _hook_called(job.hook_job, calls)))
    if job.callback:
        rows.append(("callback", _called_back(job.callback, now)))
    for name, text in rows:
        story.add_row(Text(name, style="dim"), text)
    return story


def _parents(job: Job, edges: Sequence[JobEdge]) -> str:
    """Say which jobs it waits for, and how many it has waited for."""
    pending = [edge.parent for edge in edges if not edge.outcome]
    shown_ids = ", ".join(pending[:5]) + (", …" if len(pending) > 5 else "")
    waits = f"waits for {len(pending):,} of " if pending else ""
    return f"{waits}{len(edges):,} jobs, when {job.when}" + (f": {shown_ids}" if pending else "")


def _hook_called(hook_job: str, calls: Sequence[Job]) -> str:
    """Say how far the job is that calls the hooks for another."""
    how = calls[0].status.word if calls else "not there yet, or purged"
    return f"on_final_failure is called by job {hook_job}: {how}"


def _called_back(callback: Callback, now: float) -> str:
    """Say how far a callback has come."""
    tries = f"{callback.tries} {'try' if callback.tries == 1 else 'tries'}"
    if callback.delivered:
        state = f"delivered, {tries}"
    elif callback.due is not None:
        state = f"{tries} so far, next {_when(callback.due, now)}"
    else:
        state = "when the job has ended" if not callback.tries else "not delivered"
    return f"{callback.url}: {state}" + (f"; {callback.error}" if callback.error else "")


def _print_attempts(console: Terminal, job: Job) -> None:
    if not job.history:
        return
    console.rule("attempts that did not complete", align="left")
    for past in job.history:
        took = "" if past.started is None else f" after {_span(past.ended - past.started)}"
        console.print(
            f"{past.attempt}. {past.outcome}{took} on {past.worker_id}: {past.message}",
            highlight=False,
            soft_wrap=True,
        )


def _table(*columns: str) -> Table:
    """Make a table whose ids can be copied, however narrow the terminal."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in columns:
        folds = column in ("type", "worker", "does")
        table.add_column(column, no_wrap=not folds, overflow="fold")
    return table


def status_named(word: str) -> Status:
    """Return the status that a word on the command line means, or raise a SettingsError."""
    for status in Status:
        if word in (status.value, status.word, status.word.replace(" ", "-")):
            return status
    words = ", ".join(status.word.replace(" ", "-") for status in Status)
    raise SettingsError("the command line", "--status", repr(word), words)


def _coloured(status: Status) -> Text:
    return Text(status.word, style=_COLOURS.get(status, ""))


def _short(packed: bytes) -> str:
    if is_sealed(packed):
        return f"{shown_label(label_of(packed))}, {len(packed):,} bytes"
    text = repr(msgspec.msgpack.decode(packed))
    return text if len(text) <= 200 else f"{text[:200]}… ({len(packed):,} bytes)"


def _value(packed: bytes) -> Any:
    if is_sealed(packed):
        return {"encrypted": label_of(packed), "bytes": len(packed)}
    return msgspec.msgpack.decode(packed)


def _when(at: float, now: float) -> str:
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))} ({_ago(at, now)})"


def _ago(at: float, now: float) -> str:
    return f"{_span(now - at)} ago" if at <= now else f"in {_span(at - now)}"


def _span(seconds: float) -> str:
    if 0 < seconds < 0.001:
        return f"{seconds * 1000:.2f} ms"
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172800 else f"{seconds / 86400:.0f} days"
