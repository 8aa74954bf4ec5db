"""Rates, lags and fill of stages, made of bare counts."""

from __future__ import annotations

from typing import Any

from shunter.flow.flow import Flow
from shunter.flow.runners.local import LocalRun
from shunter.flow.runtime.progress import REPORTS, Pace, StageProgress, events_read
from shunter.flow.runtime.report import StageReport


def report(name: str, kind: str = "map", **counts: int) -> StageReport:
    empty = {"taken": 0, "given": 0, "failed": 0, "waiting": 0, "capacity": 0}
    return StageReport(name, kind, **{**empty, **counts})


def chain(**options: Any) -> Flow:
    flow = Flow("tried", **options)
    flow.source([1], name="in").balanced().map(abs, name="abs").sink(print, name="out")
    return flow


def paced(flow: Flow, *reports: StageReport, nodes: int = 1) -> dict[str, StageProgress]:
    pace = Pace(flow, nodes, now=0.0)
    return {stage.name: stage for stage in pace.of(reports, now=2.0)}


def test_a_stage_lags_by_what_those_before_it_have_given_and_it_has_not_taken() -> None:
    found = paced(
        chain(),
        report("in", "source", given=100),
        report("abs", taken=70, given=60, waiting=20, capacity=50),
        report("out", "sink", taken=60),
    )

    assert [found[name].lag for name in ("in", "abs", "out")] == [0, 30, 0]
    assert (found["abs"].waiting, found["abs"].capacity) == (20, 50)


def test_what_goes_to_all_is_to_be_taken_by_each_worker() -> None:
    flow = Flow("tried")
    flow.source([1], name="in").to_all().map(abs, name="abs").sink(print, name="out")

    found = paced(
        flow, report("in", "source", given=10), report("abs", taken=25), report("out"), nodes=3
    )

    assert found["abs"].lag == 5


def test_a_stage_with_several_inputs_lags_behind_all_of_them() -> None:
    flow = Flow("tried")
    both = flow.merge(flow.source([1], name="left"), flow.source([2], name="right"))
    both.sink(print, name="out")

    found = paced(
        flow,
        report("left", "source", given=10),
        report("right", "source", given=5),
        report("out", "sink", taken=12),
    )

    assert found["out"].lag == 3


def test_dead_letters_lag_behind_all_that_failed() -> None:
    found = paced(
        chain(on_error=print),
        report("in", "source", given=10),
        report("abs", taken=10, given=6, failed=4),
        report("out", "sink", taken=6),
        report("dead letters", "sink", taken=3),
    )

    assert found["dead letters"].lag == 1


def test_a_rate_is_over_the_last_reports_only() -> None:
    pace = Pace(chain(), 1, now=0.0)
    rates = []
    for second in range(1, 3 * REPORTS):
        given = 100 * second if second <= REPORTS else 100 * REPORTS
        reports = [report("in", "source", given=given), report("abs"), report("out")]
        rates.append(pace.of(reports, now=float(second))[0].per_second)

    assert rates[:REPORTS] == [100.0] * REPORTS
    assert rates[REPORTS] < 100.0
    assert rates[-1] == 0.0


def test_a_run_that_began_anew_has_its_rate_from_then_on() -> None:
    pace = Pace(chain(), 1, now=0.0)
    counts = [(1.0, 500), (2.0, 100), (3.0, 150)]

    rates = [
        pace.of([report("in", "source", given=given), report("abs"), report("out")], now=now)
        for now, given in counts
    ]

    assert [stages[0].per_second for stages in rates] == [500.0, 0.0, 50.0]


def test_progress_is_what_sources_have_given() -> None:
    found = paced(chain(), report("in", "source", given=7), report("abs", given=3), report("out"))

    assert events_read(list(found.values())) == 7


def test_nothing_lags_behind_at_the_end_of_a_run() -> None:
    flow = Flow("tried", on_error=lambda _: None)
    numbers = flow.source(range(1000), name="in")
    numbers.to_all().map(lambda n: 1 // (n % 7), name="some").sink(lambda _: None, name="a")
    numbers.key_by(lambda n: n % 3).filter(lambda n: n % 2, name="odd").sink([].append)

    stages = LocalRun(flow, nodes=3).run().stages

    assert {stage.lag for stage in Pace(flow, 3, now=0.0).of(stages, now=1.0)} == {0}
