"""What commands print fits where it is read, and every command explains itself."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
import typer
from typer.testing import CliRunner

from shunter import __version__
from shunter.cli import inspecting, main
from shunter.cli.terminal import Terminal
from shunter.model.identity import timed_id
from shunter.model.job import Execution, Job, Status

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

    console.print(inspecting._listed(JOBS, width=width))

    lines = [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]
    assert len(lines) == len(JOBS) + 2
    assert max(map(len, lines)) <= width
    for job, line in zip(JOBS, lines[2:], strict=True):
        assert job.id in line
        assert job.status.word in line
        assert (job.execution.worker_id in line) is (width > 80)


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
