"""What the docs say is true: generated parts are current, and nothing is left out."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import typer
from msgspec import Struct

from shunter.model.job import Dispatch, ErrorKind, Execution, Failure, Job, PastAttempt, Status
from shunter.model.lifecycle import TRANSITIONS, Event
from shunter.model.report import Held
from shunter.settings import all_settings
from shunter.settings_sources import shown
from shunter.wire import messages

PROJECT = Path(__file__).parents[2]


def loaded_tool() -> ModuleType:
    path = PROJECT / "tools" / "write_docs.py"
    spec = importlib.util.spec_from_file_location("write_docs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


write_docs = loaded_tool()
tables = importlib.import_module("tools.message_tables")


def document(name: str) -> str:
    return (PROJECT / "docs" / name).read_text(encoding="utf-8")


def test_the_generated_parts_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert write_docs.main(["--check"]) == 0, capsys.readouterr().out


def test_an_outdated_part_is_found_and_rewritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "a\n<!-- made by tools/write_docs.py: the settings -->\nstale\n<!-- end -->\nb\n"
    )

    assert write_docs.main(["--check", "--docs", str(tmp_path)]) == 1
    assert "stale" in page.read_text()
    assert "type: make docs" in capsys.readouterr().out
    assert write_docs.main(["--docs", str(tmp_path)]) == 0
    assert "stale" not in page.read_text()
    assert page.read_text().startswith("a\n<!--")
    assert page.read_text().endswith("<!-- end -->\nb\n")
    assert write_docs.main(["--check", "--docs", str(tmp_path)]) == 0


def test_an_unknown_part_is_refused() -> None:
    text = "<!-- made by tools/write_docs.py: the moon -->\n<!-- end -->"

    with pytest.raises(SystemExit, match="no part is called 'the moon'"):
        write_docs.rewritten(text)


def test_the_diagram_has_every_transition() -> None:
    diagram = write_docs.job_diagram()

    for (before, event), after in TRANSITIONS.items():
        arrow = next(x for x in diagram.splitlines() if f"{before} --> {after}:" in x)
        assert event.value in arrow.partition(": ")[2].split(", ")


def test_every_setting_is_listed_with_its_default() -> None:
    text = document("settings.md")

    rows = [f"| `{each.key}` | `{shown(each.default)}` |" for each in all_settings()]

    assert [row for row in rows if row not in text] == []


@pytest.mark.parametrize("field", Job.__struct_fields__)
def test_every_field_of_a_job_is_specified(field: str) -> None:
    assert f"| `{field}` |" in document("spec/jobs.md")


@pytest.mark.parametrize("part", [Dispatch, Execution, Failure, PastAttempt])
def test_every_part_of_a_field_is_specified(part: type[Job]) -> None:
    assert ", ".join(f"`{name}`" for name in part.__struct_fields__[:3]) in document("spec/jobs.md")
    assert all(f"`{name}`" in document("spec/jobs.md") for name in part.__struct_fields__)


@pytest.mark.parametrize("event", Event)
def test_every_event_is_explained(event: Event) -> None:
    assert f"\n| {event.value} | " in document("spec/jobs.md")


@pytest.mark.parametrize("kind", ErrorKind)
def test_every_kind_of_error_is_explained(kind: ErrorKind) -> None:
    assert f"| `{kind.value}` | " in document("spec/jobs.md")


@pytest.mark.parametrize("status", Status)
def test_every_status_has_a_letter_and_a_word(status: Status) -> None:
    assert f"`{status.value}` {status.word}" in document("spec/jobs.md")


def test_commands_are_described_from_the_command_line_itself() -> None:
    app = typer.Typer(help="Everything.")
    flow = typer.Typer(help="Flows.")
    app.add_typer(flow, name="flow")

    @app.command()
    def cancel(
        job_ids: list[str],
        wait: bool = typer.Option(False, "--wait", "-w", help="Wait | watch."),
        limit: int = typer.Option(50, help="How many."),
    ) -> None:
        """Cancel jobs."""

    @flow.command("run")
    def run(file: str = typer.Argument("flow.py")) -> None: ...

    text = write_docs.command_help(typer.main.get_command(app), "shunter")

    assert "Everything." in text
    assert "## shunter cancel\n\n`shunter cancel [OPTIONS] JOB_IDS...`\n\nCancel jobs." in text
    assert "| `JOB_IDS...` | required |  |" in text
    assert "| `--wait`, `-w` |  | Wait \\| watch. |" in text
    assert "| `--limit` | `50` | How many. |" in text
    assert "## shunter flow run\n\n`shunter flow run [FILE]`" in text


def test_every_message_is_in_a_table() -> None:
    bodies = {
        value
        for value in vars(messages).values()
        if isinstance(value, type) and issubclass(value, messages.Message)
    }
    pages = document("spec/ping-pong.md")

    listed = {
        *(body for _, _, body in (*tables.WORKER_MESSAGES, *tables.PART_MESSAGES)),
        *(body for _, request, _, answer in tables.CLIENT_MESSAGES for body in (request, answer)),
        *(body for _, body in tables.UNASKED_ANSWERS),
        *tables.WORKER_PARTS,
        *tables.CLIENT_PARTS,
    }

    assert bodies - {messages.Message} <= listed
    assert all(tables.fields_of(body) in pages for body in listed)


def test_fields_are_written_with_type_and_default() -> None:
    class Example(Struct):
        a: int
        b: str | None = None
        c: tuple[Held, ...] = ()
        d: dict[str, float] = {}
        e: Status = Status.QUEUED

    assert tables.type_of(Held) == "*Held*"
    assert tables.fields_of(Example) == (
        '`a` int, `b` text? = nil, `c` [*Held*] = [], `d` map of text to float = {}, `e` text = "q"'
    )
