"""Jobs, workers and clients that mean ill: none of their commands reaches the terminal."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import structlog
from typer.testing import CliRunner

from shunter.cli import by_udp, flow_submission, history_report, job_listings, job_submission, main
from shunter.cli.processes import set_up_logging
from shunter.errors import ShunterError
from shunter.flow.job_progress import FlowProgress
from shunter.flow.runtime.progress import StageProgress
from shunter.flow.sinks import Print
from shunter.flow.terms import FLOW_JOB
from shunter.model.job import (
    Callback,
    Dispatch,
    ErrorKind,
    Execution,
    Failure,
    Job,
    PastAttempt,
    Progress,
    Status,
)
from shunter.model.pause import Pause, PauseTarget
from shunter.model.submission import Receipt
from shunter.model.worker import Handler, Worker, WorkerKind
from shunter.reporting.document import HistoryReport, TypeReport
from shunter.wire.messages import Outcome

ATTACKS = (
    "\x1b]52;c;aGk=\x07",
    "\x1b]8;;http://x\x07",
    "\x1b[2J",
    "seen\rhidden",
    "\x9b2J",
    "\u202e",
    "\x7f",
)
ATTACK = "".join(ATTACKS) + "[bold red][link=http://x]click[/link][/]"
FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
OURS = re.compile(r"\x1b\[(?:[\d;]*m|2K|\d*A|\?25[lh])|\r(?=\x1b\[|$)")
"""Colours, and how a live display goes back up and clears its lines."""

NOTHING = re.compile(r"(?!)")
PACKED = msgspec.msgpack.encode(ATTACK)
FAILURE = Failure(kind=ErrorKind.EXCEPTION, message=ATTACK, traceback=ATTACK, ended_by=ATTACK)
STAGE = StageProgress(ATTACK, ATTACK, 1, 1, 1, 1.0, 1, 1, 1)
FLOW = FlowProgress(ATTACK, 1.0, [STAGE], (1, 2), 30.0)
WHOLE_JOB = Job(
    id=ATTACK,
    type=ATTACK,
    created=1.0,
    updated=1.0,
    payload=PACKED,
    status=Status.FAILED,
    result=PACKED,
    dispatcher=Dispatch(ATTACK, 1.0, 1.0),
    execution=Execution(worker_id=ATTACK),
    callback=Callback(ATTACK, error=ATTACK),
    unique_key=ATTACK,
    rerun_of=ATTACK,
    version=ATTACK,
    error=FAILURE,
    progress=Progress(1.0, 2.0, 1.0, ATTACK),
    log=ATTACK,
    history=(PastAttempt(1, ATTACK, 1.0, 2.0, ATTACK, ATTACK),),
)
WORKER = Worker(
    id=ATTACK,
    kind=WorkerKind.FULL,
    hostname=ATTACK,
    port=1,
    handlers=(Handler(ATTACK),),
    max_jobs=1,
    registered=1.0,
    last_pinged=1.0,
    last_error=ATTACK,
    version=ATTACK,
)


class HostileClient:
    """Stands for either client; `outcome` and `found` are what it tells."""

    outcome = Outcome(ATTACK, Status.FAILED, error=FAILURE)
    found = WHOLE_JOB
    unserved = (ATTACK, FLOW_JOB)
    similar = {ATTACK: ATTACK}  # noqa: RUF012
    id = ATTACK

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> HostileClient:
        return self

    def __exit__(self, *_: object) -> None: ...

    def jobs(self, **_: object) -> list[Job]:
        return [self.found]

    def job(self, _: str) -> Job:
        return self.found

    def workers(self) -> list[Worker]:
        return [WORKER]

    def pauses(self) -> list[Pause]:
        return [Pause(target=PauseTarget.WORKER, name=ATTACK, by=ATTACK)]

    def rerun(self, *_: object, **__: object) -> HostileClient:
        return self

    def standing(self) -> SimpleNamespace:
        return SimpleNamespace(backlog=[(ATTACK, Status.QUEUED, 1)])

    def cancel(self, _: list[str]) -> list[Receipt]:
        return [Receipt(ATTACK), Receipt(ATTACK, reason=ATTACK)]

    def with_options(self, **_: object) -> HostileClient:
        return self

    def submit_raw(self, *_: object) -> HostileClient:
        return self

    def add_task(self, *_: object, **__: object) -> HostileClient:
        return self

    def wait(self, _: float | None) -> Outcome:
        return self.outcome


@pytest.fixture(autouse=True)
def hostile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[HostileClient]:
    class Client(HostileClient): ...

    for module in (job_listings, job_submission, flow_submission):
        monkeypatch.setattr(module, "Client", Client)
    monkeypatch.setattr(by_udp, "UdpClient", Client)
    monkeypatch.chdir(tmp_path)
    return Client


@pytest.fixture(params=["on a terminal", "in a pipe"])
def environ(request: pytest.FixtureRequest) -> dict[str, str | None]:
    is_terminal = request.param == "on a terminal"
    return {"FORCE_COLOR": "1" if is_terminal else None, "COLUMNS": "400", "NO_COLOR": None}


def typed(environ: dict[str, str | None], *words: str) -> tuple[str, str]:
    """Return what a command printed, all of it and on stdout, without sequences of ours."""
    told = CliRunner().invoke(main.app, words, env=environ)
    assert told.exception is None or isinstance(told.exception, SystemExit), told.exception
    assert told.output
    for attack in ATTACKS:
        assert attack not in told.output
    ours = OURS if environ["FORCE_COLOR"] else NOTHING
    return ours.sub("", told.output), ours.sub("", told.stdout)


def told_json(environ: dict[str, str | None], *words: str) -> Any:
    said, document = typed(environ, *words, "--json")
    assert not FORBIDDEN.search(said)
    return json.loads(document)


UDP = ("--via", "udp", "--dispatcher", "127.0.0.1:1")
COMMANDS = [
    ("jobs",),
    ("job", "x"),
    ("workers",),
    ("cancel", "x"),
    ("rerun", "x"),
    ("pauses",),
    ("submit", ATTACK),
    ("submit", ATTACK, "--wait"),
    ("submit", ATTACK, *UDP),
    ("submit", ATTACK, "--wait", *UDP),
    ("flow", "submit", "x", "--wait"),
]


@pytest.mark.parametrize(
    "words", COMMANDS, ids=lambda words: " ".join(word for word in words if word != ATTACK)
)
def test_a_command_shows_what_others_wrote(
    words: tuple[str, ...], environ: dict[str, str | None]
) -> None:
    said, _ = typed(environ, *words)

    assert not FORBIDDEN.search(said)
    assert r"\x1b]52;c;aGk=\x07" in said
    assert "[bold red][link=http://x]click[/link][/]" in said


@pytest.mark.parametrize(
    "words", COMMANDS, ids=lambda words: " ".join(word for word in words if word != ATTACK)
)
def test_its_json_is_harmless_and_has_the_same_values(
    words: tuple[str, ...], environ: dict[str, str | None]
) -> None:
    document = told_json(environ, *words)

    first = document[0] if isinstance(document, list) else document
    assert first["id"].endswith(ATTACK)


@pytest.mark.parametrize("way", [(), UDP], ids=["zmq", "udp"])
@pytest.mark.parametrize("value", [ATTACK, {"x": ATTACK}], ids=["text", "object"])
def test_a_result_is_shown_on_a_terminal(
    way: tuple[str, ...], value: object, hostile: type[HostileClient]
) -> None:
    hostile.outcome = Outcome("x", Status.COMPLETED, msgspec.msgpack.encode(value))
    environ = {"FORCE_COLOR": "1", "COLUMNS": "400"}

    said, _ = typed(environ, "submit", "x", "--wait", *way)

    assert not FORBIDDEN.search(said)
    assert told_json(environ, "submit", "x", "--wait", *way)["result"] == value


def test_a_result_that_is_a_text_goes_raw_into_a_pipe(hostile: type[HostileClient]) -> None:
    hostile.outcome = Outcome("x", Status.COMPLETED, PACKED)
    environ = {"FORCE_COLOR": None}

    told = CliRunner().invoke(main.app, ["submit", "x", "--wait"], env=environ)

    assert told.stdout == f"{ATTACK}\n"


@pytest.mark.parametrize("field", ["result", "progress"])
def test_the_stages_of_a_flow_job_are_shown(
    field: str, environ: dict[str, str | None], hostile: type[HostileClient]
) -> None:
    told: dict[str, Any] = {"result": None, "progress": None}
    if field == "result":
        told["result"] = msgspec.msgpack.encode(FLOW)
    else:
        told["progress"] = Progress(1.0, None, 1.0, msgspec.json.encode(FLOW).decode())
    hostile.found = msgspec.structs.replace(WHOLE_JOB, type=FLOW_JOB, **told)
    hostile.outcome = Outcome("x", Status.COMPLETED, msgspec.msgpack.encode(FLOW))

    for words in (("job", "x"), ("flow", "submit", "x", "--wait")):
        said, _ = typed(environ, *words)
        assert not FORBIDDEN.search(said)
        assert r"flow \x1b]52;c;aGk=\x07" in said


def test_the_outputs_of_a_flow_are_shown(environ: dict[str, str | None]) -> None:
    name = ATTACK.replace("/", "|")
    Path("flow.py").write_text(
        "from pathlib import Path\n"
        "from shunter import Flow\n"
        "from shunter.flow.sinks import WriteJsonLines\n"
        "flow = Flow('f')\n"
        f"flow.source(['x']).sink(WriteJsonLines(Path({name!r})))\n"
    )

    said, _ = typed(environ, "flow", "run", "flow.py", "--on", "local")

    assert not FORBIDDEN.search(said)
    assert r"\x1b]52;" in said
    assert "[bold red]" in said
    document = told_json(environ, "flow", "run", "flow.py", "--on", "local")
    assert document["outputs"][0]["path"] == name


def test_a_report_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    row = TypeReport(ATTACK, 1, 1, 0, 0, 0, None, None, ())
    report = HistoryReport(1.0, None, 1.0, 1.0, 1, 1, 0, 0, 60, (), (row,), ())

    history_report._show(report, ATTACK, Path(ATTACK))

    said = capsys.readouterr().out
    assert not FORBIDDEN.search(said)
    assert "[bold red]" in said


def test_settings_are_shown(environ: dict[str, str | None]) -> None:
    told = environ | {"SHUNTER__STORE__URL": f"sqlite:///{ATTACK}"}

    said, _ = typed(told, "config")

    assert not FORBIDDEN.search(said)
    assert {"key", "value", "source"} == set(told_json(told, "config")[0])


# ---- errors and logs


@pytest.mark.parametrize(
    "error", [ShunterError(ATTACK), ExceptionGroup("x", [ShunterError(ATTACK)])]
)
def test_an_error_of_ours_is_shown(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(main, "app", fail)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    with pytest.raises(SystemExit):
        main.main()

    said = capsys.readouterr().err
    assert not FORBIDDEN.search(said)
    assert said.startswith(r"shunter: \x1b]52;")
    assert "[bold red]" in said


def test_the_traceback_of_any_other_error_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ValueError(ATTACK)

    monkeypatch.setattr(main, "app", fail)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    with pytest.raises(ValueError, match="52") as caught:
        main.main()
    sys.excepthook(caught.type, caught.value, caught.tb)

    said = capsys.readouterr().err
    assert not FORBIDDEN.search(said)
    assert r"ValueError: \x1b]52;" in said


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen() -> Iterator[Screen]:
    configured = structlog.get_config()
    yield Screen()
    structlog.configure(**configured)


def test_the_log_of_a_process_on_a_terminal_is_shown(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Named:
        def __repr__(self) -> str:
            return ATTACK

    monkeypatch.setattr(sys, "stderr", screen)
    set_up_logging()
    log = structlog.get_logger("shunter.dispatcher")

    log.warning(ATTACK, worker=ATTACK, jobs=[ATTACK], other=Named(), count=3)
    try:
        raise ValueError(ATTACK)
    except ValueError:
        log.exception("a job failed")

    said = screen.getvalue()
    assert "\x1b[" in said, "it has colours"
    assert not FORBIDDEN.search(OURS.sub("", said))
    assert r"ValueError: \x1b]52;" in said


def test_printed_events_are_shown_on_a_terminal_and_raw_elsewhere() -> None:
    screen, file = Screen(), io.StringIO()
    for out in (screen, file):
        Print(out).write([ATTACK, {"x": ATTACK}])

    assert not FORBIDDEN.search(screen.getvalue())
    assert json.loads(screen.getvalue().splitlines()[1]) == {"x": ATTACK}
    assert file.getvalue().startswith(ATTACK)
