"""What a report says about jobs, computed by the flow's own states."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import pytest

from shunter.flow.runners.local import LocalRun
from shunter.flow.sinks import Collect
from shunter.reporting.document import (
    HistoryReport,
    Spread,
    assembled,
    covered,
    slice_seconds,
    spread_of,
)
from shunter.reporting.flow import DIFFERENT_MESSAGES, OTHER_MESSAGES, brief, report_flow
from shunter.reporting.html import page_of
from shunter.reporting.wording import share_of, span_of

NOW = 1_800_000_000.0


def job(ended: float, **changes: Any) -> dict[str, Any]:
    fields = {
        "type": "sum",
        "status": "completed",
        "ended": NOW + ended,
        "attempt": 1,
        "waiting_seconds": 0.5,
        "run_seconds": 1.0,
        "worker_id": "w-1",
        "error": None,
    }
    return fields | changes


def report_of(*jobs: dict[str, Any], seconds: int = 1) -> HistoryReport:
    kept = Collect()
    report_flow(list(jobs), kept, slice_seconds=seconds).run("local")
    return assembled(kept.events, made=NOW, since=None)


def test_it_is_the_same_on_several_nodes() -> None:
    jobs = [job(n / 7, type=f"t{n % 3}", worker_id=f"w-{n % 4}") for n in range(200)]
    kept = Collect()
    LocalRun(report_flow(jobs, kept, slice_seconds=1), nodes=3).run()

    assert assembled(kept.events, made=NOW, since=None) == report_of(*jobs)


def test_nothing_at_all_is_a_report_too() -> None:
    report = report_of()

    assert (report.jobs, report.first, report.throughput, report.workers) == (0, None, (), ())
    assert "No finished jobs" in page_of(report)


def test_one_job_has_a_page_with_all_plots() -> None:
    report = report_of(job(0.25))

    assert report.types[0].run == Spread(1.0, 1.0, 1.0)
    assert page_of(report).count("<svg") == 3
    assert "All jobs completed." in page_of(report)


def test_types_come_by_how_many_jobs_they_have() -> None:
    report = report_of(job(0), job(1, type="b"), job(2, type="b"), job(3, type="a"))

    assert [each.type for each in report.types] == ["b", "a", "sum"]


def test_a_job_that_never_ran_has_no_worker_and_no_times() -> None:
    never = {"waiting_seconds": None, "run_seconds": None, "worker_id": None}
    report = report_of(job(0, status="cancelled", attempt=0, **never))

    assert report.cancelled == 1
    assert report.workers == ()
    assert (report.types[0].waiting, report.types[0].run) == (None, None)
    assert page_of(report).count("<svg") == 3


def test_a_worker_is_busy_while_it_runs_anything() -> None:
    report = report_of(job(4, run_seconds=4.0), job(3, run_seconds=2.0), job(10, run_seconds=2.0))

    [worker] = report.workers
    assert worker.busy_seconds == pytest.approx(6.0)
    assert worker.busy_share == pytest.approx(0.6)
    assert worker.jobs_at_once == pytest.approx(0.8)
    assert worker.load == pytest.approx([1, 2, 2, 1, 0, 0, 0, 0, 1, 1, 0])
    assert [each.completed for each in report.throughput] == [0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1]


def test_long_times_have_longer_intervals_that_hold_whole_slices() -> None:
    report = report_of(*(job(600.0 * hour) for hour in range(100)), seconds=120)

    assert report.interval_seconds == 1800
    assert report.interval_seconds % 120 == 0
    assert sum(each.completed for each in report.throughput) == 100
    assert len(report.throughput) <= 61


def test_the_most_frequent_errors_come_first_and_there_are_not_too_many() -> None:
    many = [
        job(0, status="failed", error=f"E: {number}") for number in range(DIFFERENT_MESSAGES + 7)
    ]
    twice = [job(1, status="failed", error="E: 3\nwith more"), job(2, status="failed", error="")]
    report = report_of(*many, *twice)

    told = [(each.message, each.count) for each in report.types[0].errors]
    assert told[:2] == [(OTHER_MESSAGES, 8), ("E: 3", 2)]
    assert len(told) == 5


def test_repeated_runs_are_counted() -> None:
    assert report_of(job(0, attempt=3), job(1)).types[0].repeated == 2


def test_what_a_message_says_is_no_markup() -> None:
    page = page_of(report_of(job(0, type="<b>", status="failed", error="<script>x</script>")))

    assert "<script>" not in page
    assert "&lt;script&gt;x" in page


def test_the_pages_policy_allows_its_own_style_and_nothing_else() -> None:
    jobs = [job(n, type=f"t{n % 3}", status="failed" if n % 4 else "completed") for n in range(20)]
    page = page_of(report_of(*jobs))

    [policy] = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    [style] = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert page.index("Content-Security-Policy") < page.index("<style>")
    assert page.count("<svg") == 4
    assert not re.search(r"<script|<style[ /]|\sstyle=|\son\w+=|javascript:", page)


def test_plots_keep_their_colours_without_styles() -> None:
    page = page_of(report_of(job(0.25)))

    assert re.search(r'<path [^>]*fill="#[0-9a-f]{6}"', page)
    assert 'stroke-linejoin="round" stroke-linecap="butt"' in page


@pytest.mark.parametrize(
    ("values", "spread"),
    [
        ([], None),
        ([3.0], Spread(3.0, 3.0, 3.0)),
        ([2.0, 1.0], Spread(1.0, 2.0, 2.0)),
        ([float(n) for n in range(100, 0, -1)], Spread(50.0, 95.0, 100.0)),
    ],
)
def test_percentiles_are_values_that_occurred(values: list[float], spread: Spread | None) -> None:
    assert spread_of(values) == spread


def test_covered_time_counts_once() -> None:
    assert covered([]) == 0
    assert covered([[0, 2], [1, 3], [5, 6], [5.5, 5.6]]) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("span", "seconds"), [(None, 60), (3600.0, 1), (86400.0, 1), (7 * 86400.0, 10), (1e12, 604800)]
)
def test_slices_are_few_enough(span: float | None, seconds: int) -> None:
    assert slice_seconds(span) == seconds


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "–"),
        (0.0, "0 s"),
        (0.000_25, "250 µs"),
        (0.0123, "12 ms"),
        (4.25, "4.2 s"),
        (300.0, "5 min"),
        (5400.0, "1.5 h"),
        (86400.0 * 30, "30 d"),
    ],
)
def test_spans_are_read_easily(seconds: float | None, words: str) -> None:
    assert span_of(seconds) == words


def test_a_share_of_what_is_there_is_never_nothing() -> None:
    told = [share_of(0, 0), share_of(0, 9), share_of(1, 9999), share_of(1, 40), share_of(3, 3)]
    assert told == ["0 %", "0 %", "0.1 %", "2.5 %", "100 %"]


def test_a_message_is_its_first_line_cut() -> None:
    assert brief(None) == "(no message)"
    assert brief("a\nb") == "a"
    assert len(brief("x" * 999)) == 160
