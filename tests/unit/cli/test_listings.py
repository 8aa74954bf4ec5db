"""What commands print fits where it is read, and every command explains itself."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
import typer
from typer.testing import CliRunner

from shunter import __version__
from shunter.cli import job_listings, main, schedule_administration
from shunter.cli.terminal import Terminal
from shunter.model.identity import timed_id
from shunter.model.job import Execution, Job, Status
from shunter.model.schedule import Schedule, ScheduleTerms
from shunter.model.submission import Submission
from shunter.model.timing import Cron

JOBS = [
    Job(
        id=timed_id(1e9, number),
        type="a-type-with-a-long-name/of-some-team",
        created=1e9 + number,
        updated=1e9,
        status=status,
        attempt=11,
        execution=Execution(worker_id="w-some-host-name-01m7v5s6q8xk3zj2f4c9dn0b1t", started=1e9),
    )
    for number, status in enumerate(Status)
]


@pytest.mark.parametrize("width", [80, 200])
def test_a_list_of_jobs_has_a_line_for_each_with_its_whole_id(width: int) -> None:
    out = io.StringIO()
    console = Terminal(file=out, width=width)

    console.print(job_listings._listed(JOBS, width=width))

    lines = [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]
    assert len(lines) == len(JOBS) + 2
    assert max(map(len, lines)) <= width
    for job, line in zip(JOBS, lines[2:], strict=True):
        assert job.id in line
        assert job.status.word in line
        assert (job.execution.worker_id in line) is (width > 80)


@pytest.mark.parametrize("name", ["feed_sourdough/every-hour", "n" * 128])
def test_a_list_of_schedules_has_whole_names_that_can_be_copied(name: str) -> None:
    out = io.StringIO()
    terms = ScheduleTerms(timing=Cron("30 2 * * 1-5", "Europe/Berlin"))
    job = Submission(id=name, type="a-type-with-a-long-name", payload=b"")
    schedule = Schedule(
        name=name, terms=terms, job=job, created=1e9, updated=1e9, next=1e9, last=1e9
    )

    Terminal(file=out, width=80).print(schedule_administration._table([schedule]))

    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.count("n") for line in lines[3:]) >= name.count("n")  # nothing is cut off
    assert (name in out.getvalue()) is (len(name) < 80)


def commands(
    command: typer.core.TyperCommand | typer.core.TyperGroup, *words: str
) -> Iterator[tuple[str, ...]]:
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, *words, name)


@pytest.mark.parametrize("words", list(commands(typer.main.get_command(main.app))), ids=" ".join)
def test_every_command_explains_itself_after_h(words: tuple[str, ...]) -> None:
    told = CliRunner().invoke(main.app, [*words, "-h"])

    assert told.exit_code == 0, told.output
    assert "Usage:" in told.stdout
    assert "-h, --help" in told.stdout


def test_the_version_is_told() -> None:
    assert CliRunner().invoke(main.app, ["--version"]).stdout == f"shunter {__version__}\n"


def test_a_shell_completes_commands() -> None:
    environ = {
        "_SHUNTER_COMPLETE": "complete_bash",
        "COMP_WORDS": "shunter pau",
        "COMP_CWORD": "1",
    }

    told = CliRunner().invoke(main.app, [], env=environ, prog_name="shunter")

    assert told.stdout.split() == ["pause", "pauses"]
