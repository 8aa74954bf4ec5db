"""`shunter pause`, `resume`, `drain` and `pauses`: what dispatchers are to start no more of."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich import box
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from shunter.cli.job_listings import client_of
from shunter.cli.terminal import Terminal, json_line
from shunter.cli.unserved import note_if_unserved
from shunter.client import Client
from shunter.errors import ResultTimeout, SettingsError
from shunter.model.job import Status
from shunter.settings import Settings

HEEDED_SECONDS = 2.5
"""After so long every dispatcher goes by a pause: each reads them once a second."""

LOOK_SECONDS = 0.5
PAGE = 1000


def pause(settings: Settings, job_type: str, *, wait: bool, wait_timeout: float | None) -> int:
    """Hold a type back; with `wait`, until none of its jobs runs."""
    with client_of(settings) as client:
        client.pause(job_type)
        _say(f"{job_type}: paused; no more of its jobs start, in 2 s on no dispatcher")
        note_if_unserved(client, job_type)
        if wait:
            _until_none_runs(job_type, lambda: _running(client, job_type), wait_timeout)
    return 0


def resume(settings: Settings, job_type: str) -> int:
    """Let a type go on."""
    with client_of(settings) as client:
        client.resume(job_type)
    _say(f"{job_type}: its jobs start again")
    return 0


def drain(
    settings: Settings,
    worker_id: str | None,
    version: str | None,
    *,
    undo: bool,
    wait: bool,
    wait_timeout: float | None,
) -> int:
    """Give a worker, or all of a version, nothing new; with `wait`, until they have nothing."""
    if bool(worker_id) is bool(version):
        found = "both" if worker_id else "neither"
        allowed = "the id of a worker, or --version"
        raise SettingsError("the command line", "drain", found, allowed)
    if undo and wait:
        raise SettingsError("the command line", "--undo", "beside --wait", "one of the two")
    what = worker_id or f"version {version}"
    with client_of(settings) as client:
        if undo:
            client.undrain(worker_id or "", version=version or "")
            _say(f"{what}: gets jobs again")
            return 0
        client.drain(worker_id or "", version=version or "")
        _say(f"{what}: draining; it gets nothing new, in 2 s from no dispatcher")
        if wait:
            _until_none_runs(what, lambda: _held(client, worker_id, version), wait_timeout)
    return 0


def pauses(settings: Settings, *, as_json: bool) -> int:
    """List what is held back."""
    console = Terminal()
    with client_of(settings) as client:
        found = client.pauses()
    if as_json:
        console.print_json(json_line([pause.as_dict() for pause in found]))
        return 0
    table = Table("what", "name", "since", "by", box=box.SIMPLE_HEAD)
    for pause in found:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(pause.at))
        table.add_row(pause.target, pause.name, since, pause.by)
    console.print(table if found else "nothing is held back")
    return 0


def _running(client: Client, job_type: str) -> int:
    found = [
        client.jobs(status=status, type=job_type, limit=PAGE)
        for status in (Status.DISPATCHING, Status.IN_PROGRESS)
    ]
    return sum(map(len, found))


def _held(client: Client, worker_id: str | None, version: str | None) -> int:
    meant = (
        worker
        for worker in client.workers()
        if (worker.id == worker_id if worker_id else worker.version == version)
    )
    return sum(len(worker.jobs) for worker in meant)


def _until_none_runs(what: str, running: Callable[[], int], timeout: float | None) -> None:
    """Wait until every dispatcher knows and nothing is left; show how much that is."""
    begun = time.monotonic()
    words = TextColumn("{task.description}", markup=False)
    err = Terminal(stderr=True)
    with Progress(words, BarColumn(), TimeElapsedColumn(), console=err, transient=True) as progress:
        most = left = running()
        bar = progress.add_task(what, total=most or None)
        while left or time.monotonic() - begun < HEEDED_SECONDS:
            if timeout is not None and time.monotonic() - begun >= timeout:
                raise ResultTimeout(f"({left} of {what})", timeout)
            time.sleep(LOOK_SECONDS)
            left = running()
            most = max(most, left)
            progress.update(bar, total=most or None, completed=most - left)
    _say(f"{what}: nothing runs")


def _say(text: str) -> None:
    Terminal(soft_wrap=True).print(text, highlight=False)
