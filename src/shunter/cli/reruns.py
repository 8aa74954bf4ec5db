"""`shunter rerun`: ended jobs, named or found by a filter, are done again as new jobs."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from shunter.cli.job_listings import client_of, status_named
from shunter.cli.terminal import Terminal, json_line
from shunter.client import Client
from shunter.client.async_client import RERUN_AT_ONCE
from shunter.codec import Codec
from shunter.errors import JobError, JobNotFound, SettingsError
from shunter.flow.sources.since import parse_since
from shunter.model.job import FINAL, Job, Status
from shunter.settings import Settings

PAGE = 500


class RerunFilter(Struct, frozen=True, kw_only=True):
    """Which ended jobs are meant; a job counts by when it was submitted."""

    type: str | None = None
    status: str | None = None
    namespace: str | None = None
    error: str | None = None
    since: str | None = None
    until: str | None = None

    @property
    def is_empty(self) -> bool:
        """True if nothing was said at all."""
        return self == RerunFilter()


class NewArguments(Struct, frozen=True):
    """What the new jobs are called with; None of both leaves it as it was."""

    args: list[Any] | None = None
    kwargs: dict[str, Any] | None = None


def new_arguments(args: str | None, kwargs: str | None) -> NewArguments:
    """Read `--args` and `--kwargs`, or raise a SettingsError."""
    return NewArguments(_json("--args", args, list), _json("--kwargs", kwargs, dict))


def _json(flag: str, text: str | None, expected: type) -> Any:
    if text is None:
        return None
    allowed = 'a JSON list, such as [1, "a"]' if expected is list else 'JSON such as {"a": 1}'
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise SettingsError("the command line", flag, f"{text[:80]!r} ({error})", allowed) from None
    if not isinstance(value, expected):
        raise SettingsError("the command line", flag, repr(text[:80]), allowed)
    return value


def rerun(
    settings: Settings,
    job_ids: list[str],
    wanted: RerunFilter,
    new: NewArguments,
    *,
    yes: bool,
    as_json: bool,
    codec: Codec | None = None,
    from_step: str = "",
) -> int:
    """Do jobs again; return 0 if all of them could be."""
    if from_step and not job_ids:
        raise SettingsError("the command line", "--from", "a filter beside it", "ids of jobs")
    if bool(job_ids) is not wanted.is_empty:
        found = "ids beside a filter" if job_ids else "neither ids nor a filter"
        raise SettingsError("the command line", "rerun", found, "the ids of jobs, or a filter")
    console = Terminal(soft_wrap=True)
    with client_of(settings, codec=codec) as client:
        if job_ids:
            return _print(console, _each(client, job_ids, new, from_step), as_json=as_json)
        found_jobs = list(matching(client, wanted, now=time.time()))
        _count(Terminal(stderr=True), found_jobs, yes=yes)
        if not yes:
            if as_json:
                console.print(json_line([{"id": job.id, "type": job.type} for job in found_jobs]))
            return 0
        done = _all(client, [job.id for job in found_jobs], new)
        return _print(console, done, as_json=as_json)


def matching(client: Client, wanted: RerunFilter, *, now: float) -> Iterator[Job]:
    """Yield the jobs that are meant, newest first; without a word on status, those that failed."""
    status = status_named(wanted.status or "failed")
    if status not in FINAL:
        words = ", ".join(each.word for each in Status if each in FINAL)
        raise SettingsError("the command line", "--status", repr(wanted.status), words)
    since = None if wanted.since is None else parse_since(wanted.since, now=now)
    until = None if wanted.until is None else parse_since(wanted.until, now=now)
    before: str | None = None
    while True:
        page = client.jobs(
            status=status,
            type=wanted.type,
            namespace=wanted.namespace,
            before=before,
            limit=PAGE,
        )
        for job in page:
            if since is not None and job.created < since:
                return
            is_early_enough = until is None or job.created < until
            if is_early_enough and _says(job, wanted.error):
                yield job
        if len(page) < PAGE:
            return
        before = page[-1].id


def _says(job: Job, error: str | None) -> bool:
    if error is None:
        return True
    return (
        job.error is not None and error.lower() in f"{job.error.kind}: {job.error.message}".lower()
    )


def _count(console: Terminal, jobs: list[Job], *, yes: bool) -> None:
    kinds = Counter((job.type, job.status.word) for job in jobs)
    counted = ", ".join(f"{count:,} {word} {kind}" for (kind, word), count in kinds.most_common(10))
    more = f" and {len(kinds) - 10} more types" if len(kinds) > 10 else ""
    noun = "job" if len(jobs) == 1 else "jobs"
    text = f"{len(jobs):,} {noun}" + (f": {counted}{more}" if jobs else " like that")
    console.print(text if yes or not jobs else f"{text}; nothing is rerun without --yes")


Done = tuple[str, str, str]
"""The job that was to be done again, the new one, and why there is none."""


def _each(
    client: Client, job_ids: list[str], new: NewArguments, from_step: str = ""
) -> Iterator[Done]:
    for job_id in job_ids:
        try:
            job = client.rerun(job_id, args=new.args, kwargs=new.kwargs, from_step=from_step)
        except JobError as error:
            yield job_id, "", str(error)
        else:
            yield job_id, job.id, ""


def _all(client: Client, job_ids: list[str], new: NewArguments) -> Iterator[Done]:
    """Rerun many at a time; if one is purged meanwhile, those beside it one by one."""
    for start in range(0, len(job_ids), RERUN_AT_ONCE):
        some = job_ids[start : start + RERUN_AT_ONCE]
        try:
            jobs = client.rerun_many(some, args=new.args, kwargs=new.kwargs)
        except JobNotFound:  # nothing of these was sent
            yield from _each(client, some, new)
        else:
            yield from ((old, job.id, "") for old, job in zip(some, jobs, strict=True))


def _print(console: Terminal, done: Iterator[Done], *, as_json: bool) -> int:
    outcomes = []
    for old, job_id, reason in done:
        outcomes.append({"rerun_of": old, "id": job_id or None, "reason": reason})
        if not as_json:
            console.print(reason or f"{old}: rerun as {job_id}", highlight=False)
    if as_json:
        console.print(json_line(outcomes))
    return 1 if any(outcome["reason"] for outcome in outcomes) else 0
