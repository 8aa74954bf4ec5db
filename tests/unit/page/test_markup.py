"""Every view with texts that must stay texts: what comes out has no markup but its own."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from shunter.flow.job_progress import FlowProgress, SafePoint
from shunter.flow.runtime.progress import EdgeProgress, StageProgress
from shunter.flow.runtime.report import SourceLag
from shunter.model.activity import RecentError, Spans
from shunter.model.job import (
    Callback,
    ErrorKind,
    Execution,
    Failure,
    Job,
    PastAttempt,
    Progress,
    Status,
)
from shunter.model.key import Action
from shunter.model.limits_record import LimitsRecord
from shunter.model.pause import NO_PAUSES
from shunter.model.run_view import RunView
from shunter.model.schedule import Schedule, ScheduleTerms
from shunter.model.submission import Submission
from shunter.model.timing import Cron
from shunter.model.worker import Handler, Worker, WorkerKind
from shunter.model.workflow import JobEdge
from shunter.page import overview
from shunter.page.filters import STATUSES, JobFilter
from shunter.page.flow_drawing import HEIGHT, WIDTH, drawn
from shunter.page.markup import asset, marked, page, snapshot
from shunter.page.markup import drawn as drawn_view
from shunter.page.panels import PANELS
from shunter.page.run_drawing import RunBox, drawn_run
from shunter.page.schedule_form import ScheduleFields
from shunter.page.schedule_rows import schedule_row
from shunter.page.steps_panel import StepRow
from shunter.page.timeline import ROW, attempts, bars
from shunter.page.value_tree import value_tree
from shunter.page.views import VIEWS
from shunter.page.worker_rows import worker_rows
from shunter.store.search import JobsSeen, RunsSeen, RunSummary
from system.page.hostile import HOSTILE

TEXT = "\n".join(HOSTILE)
NOW = 1_700_000_000.0

JOB = Job(
    id=TEXT,
    type=TEXT,
    created=NOW,
    updated=NOW,
    status=Status.FAILED,
    attempt=2,
    payload=msgspec.msgpack.encode({TEXT: [TEXT]}),
    result=msgspec.msgpack.encode(TEXT),
    error=Failure(ErrorKind.EXCEPTION, TEXT, traceback=TEXT, ended_by=TEXT),
    execution=Execution(worker_id=TEXT, sent=NOW, started=NOW, ended=NOW + 1),
    callback=Callback(url=TEXT, error=TEXT),
    progress=Progress(done=1, total=2, at=NOW, note=TEXT),
    history=(PastAttempt(1, TEXT, NOW, NOW, TEXT, TEXT),),
    unique_key=TEXT,
    workflow=TEXT,
    rerun_of=TEXT,
    version=TEXT,
    namespace=TEXT,
    keys={TEXT: TEXT},
    lane=TEXT,
    log=TEXT,
)
STAGE = StageProgress(TEXT, TEXT, 1, 1, 1, 1.0, 1, 1, 1, TEXT)
EDGE = EdgeProgress(TEXT, TEXT, TEXT, 1, 1.0)
FLOW = FlowProgress(TEXT, 1.0, [STAGE], still=9.0, edges=[EDGE], on=TEXT)
RELATIONS = {
    "when": TEXT,
    "parents": [(TEXT, JOB)],
    "children": [(TEXT, None)],
    "are_more": (True, True),
}
STEPS = {
    "steps": [StepRow(TEXT, NOW, 0.1, 0, TEXT), StepRow("pay", NOW, 0.1, 3, "7")],
    "left_out": 2,
}
PANELS_HERE = ("relations", "steps")
WORKER = Worker(
    id=TEXT,
    kind=WorkerKind.FULL,
    hostname=TEXT,
    port=1,
    handlers=(Handler(TEXT),),
    max_jobs=2,
    registered=NOW,
    last_pinged=NOW,
    last_error=TEXT,
    version=TEXT,
    jobs=(TEXT,),
)
SCHEDULE = Schedule(
    name=TEXT,
    terms=ScheduleTerms(timing=Cron("0 3 * * *", TEXT)),
    job=Submission(TEXT, TEXT, b"\xc0"),
    created=NOW,
    updated=NOW,
    namespace=TEXT,
    error=TEXT,
    declared_by=TEXT,
)


def _data() -> dict[str, dict[str, Any]]:
    may = frozenset(Action)
    types = [overview.TypeRow(TEXT, 1, 1, 1, NOW, 1, 1, Spans((1,)), Spans((1,)), 0, True)]
    rows = attempts(JOB)
    job = {
        "job": JOB,
        "attempts": rows,
        "bars": bars(JOB, rows, now=NOW),
        "line": (1000, ROW),
        "row_height": ROW,
        "payload": value_tree(JOB.payload),
        "result": value_tree(JOB.result),
        "log": JOB.log,
        "is_log_cut": True,
        "panels": [
            (panel, {**RELATIONS, **STEPS}) for panel in PANELS if panel.name in PANELS_HERE
        ],
        "edit": TEXT,
    }
    flow = {"job": JOB, "progress": FLOW, "drawing": drawn(FLOW), "box": (WIDTH, HEIGHT)}
    flow |= {"slow": [STAGE], "bad": [STAGE]}
    flow["safe"] = [{"name": "Batch", "point": SafePoint(3, 0.5, 0.1, 7), "at": NOW}]
    counts = {Status.FAILED: 1, Status.WAITING: 2}
    run = RunSummary(id=TEXT, workflow=TEXT, created=NOW, counts=counts, is_cut=True)
    graph = drawn_run(RunView(TEXT, [JOB], [JobEdge(TEXT, TEXT)]))
    limits, worker = LimitsRecord(declared_by=TEXT), worker_rows([WORKER], NO_PAUSES)[0]
    found = JobFilter(*[TEXT] * 10, faults=(TEXT,))
    return {
        "overview": {
            "figures": overview.figures(types, [], [WORKER], [], [], now=NOW),
            "plots": overview.plots([], now=NOW),
            "types": {TEXT: types[0]},
            "errors": [RecentError(TEXT, TEXT, 3, TEXT, NOW)],
            "dispatchers": [],
            "counted": 10,
            "may": may,
        },
        "jobs": {
            "jobs": {TEXT: JOB},
            "seen": JobsSeen(jobs=[JOB], next=TEXT, until=NOW),
            "filter": found,
            "is_first": False,
            "statuses": list(STATUSES),
            "may": may,
        },
        "job": {**job, "may": may},
        "flows": {"flows": {TEXT: (JOB, FLOW)}, "seen": JobsSeen(jobs=[], next=TEXT), "may": may},
        "flow": {**flow, "may": may},
        "schedules": {
            "schedules": {TEXT: msgspec.structs.replace(_row(), ticks=(NOW,))},
            "next": TEXT,
            "may": may,
        },
        "schedule": {
            "schedule": msgspec.structs.replace(SCHEDULE, unfinished=(TEXT,)),
            "row": msgspec.structs.replace(_row(), is_waiting=True),
            "ticks": (NOW,),
            "form": ScheduleFields(*[TEXT] * 7),
            "overlaps": [TEXT],
            "may": may,
        },
        "workflows": {
            "runs": {TEXT: (run, "failed")},
            "seen": RunsSeen(runs=[], next=TEXT),
            "workflow": TEXT,
            "is_first": False,
            "may": may,
        },
        "workflow": {
            "run": run,
            "state": "failed",
            "is_over": False,
            "drawing": msgspec.structs.replace(graph, boxes=(RunBox(JOB, 0, 0),), later=2),
            "box": (WIDTH, HEIGHT),
            "jobs": {TEXT: JOB},
            "shown": 1,
            "total": 3,
            "counted": 10,
            "may": may,
        },
        "limits": {"limits": {TEXT: (TEXT, limits, [JOB])}, "shown": 5, "may": may},
        "limit": {"type": TEXT, "record": limits, "holders": [JOB], "may": may},
        "workers": {"workers": {TEXT: worker}, "pauses": [], "may": may},
        "dispatchers": {"dispatchers": {}, "own": TEXT},
    }


def _row() -> Any:
    return schedule_row(msgspec.structs.replace(SCHEDULE, is_paused=True))


class Tags(HTMLParser):
    """Collects what a browser would see as elements and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs


FRAME = {
    "view": None, "menu": [], "who": TEXT, "has_keys": True, "is_read_only": True,
    "form_token": "t", "now": NOW, "dispatcher": TEXT, "here": TEXT, "back": "", "done": TEXT,
    "live": TEXT, "digest": "", "title": TEXT,
}  # fmt: skip


def _markup(name: str) -> str:
    view, data = next(it for it in VIEWS if it.name == name), _data()[name]
    found = snapshot(view, data)
    return page(name, {**data, **marked(found), **FRAME})


@pytest.mark.parametrize("view", [view.name for view in VIEWS])
def test_a_view_of_hostile_texts_has_no_markup_but_its_own(view: str) -> None:
    seen = Tags()
    markup = _markup(view)
    seen.feed(markup)

    assert seen.tags.isdisjoint({"b", "iframe", "object"})
    assert markup.count("<script") == 1
    assert markup.count("<img") == 1
    assert not [name for name, _ in seen.attributes if name.startswith("on") or name == "style"]
    for name, value in seen.attributes:
        if name in ("href", "src", "action") and value:
            assert value.startswith(("/", "#")), (name, value)
    assert not re.search("[\x00-\x08\x1b\x85\u202e]", markup)


def test_only_what_differs_is_drawn_again() -> None:
    view, data = next(it for it in VIEWS if it.name == "jobs"), _data()["jobs"]
    other = msgspec.structs.replace(JOB, id="other")
    first = drawn_view(view, {**data, "jobs": {"a": JOB, "b": other}})
    assert drawn_view(view, {**data, "jobs": {"a": JOB, "b": other}}, first) is first

    moved = msgspec.structs.replace(other, attempt=41)
    again = drawn_view(view, {**data, "jobs": {"b": moved, "c": other, "a": JOB}}, first)
    rows, before = again.snapshot.lists["jobs"], first.snapshot.lists["jobs"]
    assert list(rows) == ["b", "c", "a"]
    assert rows["a"] is before["a"]
    assert ">41<" in rows["b"]
    assert rows["c"] == before["b"]


@pytest.mark.parametrize(
    ("view", "section"),
    [("job", "/jobs"), ("workflow", "/workflows"), ("flow", "/flows"), ("limit", "/limits")],
)
def test_a_page_of_one_thing_stands_under_the_view_of_all(view: str, section: str) -> None:
    shown, data = next(it for it in VIEWS if it.name == view), _data()[view]
    menu = [it for it in VIEWS if it.is_in_menu]
    frame = {**FRAME, "view": shown, "menu": menu}
    markup = page(view, {**data, **marked(snapshot(shown, data)), **frame})

    assert re.findall(r'<a href="([^"]*)" aria-current="(\w+)"', markup) == [(section, "true")]


def test_ticks_of_other_days_say_which_days() -> None:
    ticks = (NOW, NOW + 60.0, NOW + 86400.0)
    row = msgspec.structs.replace(_row(), ticks=ticks)
    data = {**_data()["schedules"], "schedules": {"a": row}}
    view = next(it for it in VIEWS if it.name == "schedules")

    markup = snapshot(view, data).lists["schedules"]["a"]

    assert "2023-11-14 22:13:20, 22:14:20, 2023-11-15 22:13:20" in markup


@pytest.mark.parametrize(
    ("status", "words", "others"),
    [
        (Status.IN_PROGRESS, "An earlier attempt ended", 'class="fault"'),
        (Status.FAILED, 'class="fault"', "An earlier attempt"),
    ],
)
def test_a_flow_that_runs_again_does_not_look_as_if_it_had_failed(
    status: Status, words: str, others: str
) -> None:
    job = msgspec.structs.replace(JOB, status=status)
    data = {**_data()["flow"], "job": job}
    view = next(it for it in VIEWS if it.name == "flow")

    head = snapshot(view, data).regions["head"]

    assert words in head
    assert others not in head


@pytest.mark.parametrize(
    ("kind", "lag", "words"),
    [
        ("map", None, "1,234"),
        ("source", None, "–"),
        ("source", SourceLag(56_789, "files"), "56,789 files"),
        ("source", SourceLag(), "not told by this source"),
    ],
)
def test_a_source_shows_the_lag_that_it_told(kind: str, lag: SourceLag | None, words: str) -> None:
    view = next(it for it in VIEWS if it.name == "flow")
    stage = msgspec.structs.replace(STAGE, kind=kind, lag=1_234, source_lag=lag)
    progress = msgspec.structs.replace(FLOW, stages=[stage])

    stages = snapshot(view, {**_data()["flow"], "progress": progress}).regions["stages"]

    assert f'<td class="n">{words}</td><td class="n">1 / 1' in stages


def test_a_flow_that_has_ended_has_no_rates_any_more() -> None:
    view, data = next(it for it in VIEWS if it.name == "flow"), _data()["flow"]
    running = {**data, "job": msgspec.structs.replace(JOB, status=Status.IN_PROGRESS)}

    assert "1.0 /s" in snapshot(view, running).regions["graph"]
    assert "1.0 /s" not in snapshot(view, data).regions["graph"]
    assert "1.0 /s" not in snapshot(view, data).regions["stages"]


@pytest.mark.parametrize("name", ["refusal", "sign_in", "confirm"])
def test_the_other_pages_are_as_careful(name: str) -> None:
    values = {**FRAME, "message": TEXT, "status": 400, "back": "/", "is_refused": True}
    values |= {"verb": "cancel-found", "word": "cancel", "count": 3, "is_more": True}
    markup = page(name, {**values, "filter": JobFilter(*[TEXT] * 10)})
    assert "<script>" not in markup
    assert "<svg onload" not in markup


def test_edges_and_full_stages_are_drawn() -> None:
    stages = [
        StageProgress(name, "map", 1, 1, 0, 2.0, 4, waiting, 10)
        for name, waiting in (("a", 0), ("b", 9), ("c", 1))
    ]
    edges = [EdgeProgress(a, b, "local", 1, 2.0) for a, b in (("a", "b"), ("a", "c"), ("b", "c"))]
    picture = drawn(FlowProgress("f", 1.0, stages, edges=edges))
    assert [box.x for box in picture.boxes] == sorted({box.x for box in picture.boxes})
    assert [line.is_full for line in picture.lines] == [True, False, False]
    assert [line.waiting for line in picture.lines] == [4, None, None]


def test_a_cycle_that_was_reported_is_drawn_and_ends() -> None:
    stages = [StageProgress(name, "map", 1, 1, 0, 0.0, 0, 0, 0) for name in "ab"]
    edges = [EdgeProgress(a, b, "local", 1, 0.0) for a, b in (("a", "b"), ("b", "a"))]
    assert len(drawn(FlowProgress("f", 1.0, stages, edges=edges)).boxes) == 2


def test_assets_are_those_of_the_package_and_no_others() -> None:
    assert asset("page.css") is not None
    for name in ("../routes.py", "routes.py", "", ".", "..", "page.css/..", "/etc/passwd"):
        assert asset(name) is None
