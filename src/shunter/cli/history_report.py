"""`shunter report`: what became of the jobs that have ended, as a page, a table or JSON."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec
from rich import box
from rich.table import Table

from shunter.cli.spark_runs import run_and_show
from shunter.cli.terminal import Terminal
from shunter.flow.runners import local
from shunter.flow.runners.spark.dataframe_source import DataFrameSource
from shunter.flow.runners.spark.history import finished_jobs
from shunter.flow.sources.job_history import JobHistory, history
from shunter.flow.sources.since import parse_since
from shunter.reporting.document import HistoryReport, Spread, slice_seconds
from shunter.reporting.flow import report_flow
from shunter.reporting.sink import WriteReport
from shunter.reporting.wording import share_of, span_of
from shunter.settings import Settings
from shunter.shown_text import shown_json
from shunter.store.registry import driver_of

DEFAULT_OUTPUT = Path("report.html")


def report(
    settings: Settings,
    *,
    since: str,
    output: Path | None,
    is_on_spark: bool,
    master: str | None,
    as_json: bool,
) -> None:
    """Run the report's flow, write the page, and print the table."""
    url = driver_of(settings.store.url).absolute(settings.store.url)
    now = time.time()
    begin = parse_since(since, now=now)
    with history(url):
        pass  # what is wrong with the store is said before Spark starts
    path = output if as_json or output else DEFAULT_OUTPUT
    sink = WriteReport(path, made=now, since=begin)
    seconds = slice_seconds(now - begin)
    if is_on_spark:
        jobs = DataFrameSource(finished_jobs(url, since=repr(begin)))
        flow = report_flow(jobs, sink, slice_seconds=seconds)
        run_and_show(flow, master=master, is_shown=not as_json)
    else:
        local.run(report_flow(JobHistory(url, since=begin), sink, slice_seconds=seconds))
    assert sink.report is not None, "the flow has ended"
    if as_json:
        document = msgspec.json.format(msgspec.json.encode(sink.report)).decode()
        sys.stdout.write(shown_json(document) + "\n")
    else:
        _show(sink.report, since, path)


def _show(report: HistoryReport, since: str, path: Path | None) -> None:
    console = Terminal()
    if report.jobs:
        console.print(_table(report))
        console.print(
            f"{report.jobs:,} finished jobs since {since}: {report.completed:,} completed, "
            f"{report.failed:,} failed ({share_of(report.failed, report.jobs)}), "
            f"{report.cancelled:,} cancelled, on {len(report.workers):,} workers",
            highlight=False,
            soft_wrap=True,
        )
    else:
        console.print(f"no finished jobs since {since}", highlight=False)
    if path is not None:
        console.print(f"the page: {path.absolute()}", soft_wrap=True, highlight=False)


def _table(report: HistoryReport) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("type", overflow="fold")
    for name in ("jobs", "failed", "waited p50", "p95", "ran p50", "p95"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in report.types:
        row = [each.type, f"{each.jobs:,}", f"{each.failed:,}" if each.failed else ""]
        table.add_row(*row, *_both(each.waiting), *_both(each.run))
    return table


def _both(spread: Spread | None) -> tuple[str, str]:
    return ("", "") if spread is None else (span_of(spread.p50), span_of(spread.p95))
