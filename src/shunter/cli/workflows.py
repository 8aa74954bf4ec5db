"""`shunter workflow`: runs in short; one as a tree or a picture, cancelled, or done again."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from shunter.cli.options import (
    CodecAppOption,
    ConfigOption,
    DispatcherOption,
    JsonOption,
    codec_of,
)
from shunter.errors import SettingsError
from shunter.model.job import Job
from shunter.model.run_view import RunSummary, RunView
from shunter.model.submission import Receipt
from shunter.settings_sources import load_settings
from shunter.shown_text import shown

MOST_LINES = 500
"""How many lines of the tree are printed; JSON has all of it."""


def workflow(
    run_id: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="The id of the run; without it runs are listed."),
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it into this file.")
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Stop what has not ended.")] = False,
    rerun: Annotated[bool, typer.Option("--rerun", help="Do it again, as new jobs.")] = False,
    first: Annotated[
        str | None,
        typer.Option("--from", metavar="JOB", help="Cancel or rerun from this job on."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="List only runs of the workflow of this name.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many runs to list.")] = 20,
    before: Annotated[
        str | None, typer.Option(metavar="RUN", help="List those behind this one.")
    ] = None,
    app_spec: CodecAppOption = None,
    dispatchers: DispatcherOption = None,
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List runs of workflows, or show one as a tree; draw it, cancel it, or do it again."""
    from shunter.cli.job_listings import client_of
    from shunter.cli.terminal import Terminal, json_line

    console = Terminal()
    loaded = load_settings(config_file, os.environ, {"client.dispatchers": dispatchers})
    if run_id is None:
        if svg is not None or cancel or rerun or first is not None:
            raise typer.BadParameter("--svg, --cancel, --rerun and --from need the id of a run")
        with client_of(loaded.settings) as client:
            runs = client.runs.list(workflow=name, before=before, limit=limit)
        if as_json:
            console.print_json(json_line([run.as_dict() for run in runs]))
        for run in () if as_json else runs:
            console.print(run_line(run), highlight=False, soft_wrap=True)
        if not runs and not as_json:
            console.print("no run of a workflow was found")
        return
    if first is not None and not cancel and not rerun:
        raise typer.BadParameter("--from needs --cancel or --rerun")
    with client_of(loaded.settings, codec=codec_of(app_spec)) as client:
        receipts: list[Receipt] = []
        new: list[str] = []
        if cancel:
            receipts = client.runs.cancel(run_id, first=first)
        if rerun:
            new = [job.id for job in client.runs.rerun(run_id, first=first)]
        view = client.runs.show(run_id)
    if svg is not None:
        from shunter.cli.workflow_picture import run_as_svg

        try:
            svg.write_text(run_as_svg(view))
        except OSError as error:
            raise SettingsError(
                "the command line",
                "--svg",
                f"{svg}, which can't be written ({error.strerror})",
                "a file in a folder that is there and may be written to",
            ) from None
    if as_json:
        console.print_json(json_line(view.as_dict() | {"rerun": new}))
        return
    for line in islice(tree_lines(view, now=time.time()), MOST_LINES):
        console.print(line, highlight=False, soft_wrap=True)
    if len(view.jobs) > MOST_LINES:
        console.print(f"… {len(view.jobs):,} jobs in all; --json has them")
    if new:
        console.print(f"{len(new):,} jobs are done again")
    for receipt in receipts:
        if receipt.reason:
            console.print(receipt.reason)


def run_line(run: RunSummary) -> str:
    """Tell a run in one line."""
    counted = ", ".join(f"{count:,} {status.word}" for status, count in run.counts.items())
    more = " of the first of its jobs" if run.is_cut else ""
    took = "" if run.ended is None else f", {max(0.0, run.ended - run.created):.2f} s"
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.created))
    return f"{run.id}  {shown(run.workflow or '-')}  {began}{took}  {counted}{more}"


def tree_lines(view: RunView, *, now: float) -> Iterator[str]:
    """Tell a run as a tree, with how long each job took, or has taken."""
    counted = ", ".join(f"{count:,} {status.word}" for status, count in view.counts.items())
    yield f"run {view.id} of {shown(view.workflow or 'no workflow')}: {counted}"
    for branch, job, was_shown, above in view.tree():
        if was_shown:
            yield f"{branch}{shown(job.type)} {job.id} (see above)"
        else:
            status = f"{job.status.word}{_times(job, now)}{_why(job)}"
            yield f"{branch}{shown(job.type)} {job.id}  {status}{_named(above)}"


def _named(above: Sequence[Job]) -> str:
    """Name jobs that stand further up, and come after this one as well."""
    if not above:
        return ""
    more = f" and {len(above) - 1:,} more" if len(above) > 1 else ""
    return f" → {shown(above[0].type)} {above[0].id}{more} (see above)"


def _times(job: Job, now: float) -> str:
    run = job.execution
    began = run.given_at if run.started is None else run.started
    if began is None:
        return ""
    return f", {max(0.0, (run.ended or now) - began):.2f} s"


def _why(job: Job) -> str:
    if job.error is None or not job.status.is_final:
        return ""
    text = shown(" ".join(job.error.message.split()))
    return f": {text if len(text) <= 100 else text[:99] + '…'}"
