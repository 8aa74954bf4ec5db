"""Every public sink is tested, here or in a suite that is named, and is in the guide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.sinks.file_sinks import FILE_CASES
from shunter.flow import sinks
from shunter.flow.sinks import Collect, CountEvents, Each, Print
from unit.flow.io_steps import carried, write_all

PROJECT = Path(__file__).parents[3]

ELSEWHERE = {
    "SubmitJobs": "tests/system/flow/test_job_io.py",
    "UpsertDocuments": "tests/system/flow/test_mongo_io.py",
    "UpsertRows": "tests/unit/flow/test_sqlite_io.py",
}
"""Those that need a server or a table, and where they are tested."""

NO_SINKS = {"Sink", "as_sink"}
FILES = {"WriteCsv", "WriteDelta", "WriteJsonLines", "WriteParquet"}
IN_MEMORY = {"Collect", "CountEvents"}
CALLS = {"Each", "Print"}

PUBLIC = set(sinks.__all__) - NO_SINKS


def test_every_public_sink_is_tested() -> None:
    made = {type(case.make("out")).__name__ for case in FILE_CASES}

    assert made == FILES
    assert FILES | IN_MEMORY | CALLS | ELSEWHERE.keys() == PUBLIC
    assert all((PROJECT / path).is_file() for path in ELSEWHERE.values())


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_sink_is_in_the_guide(name: str) -> None:
    guide = (PROJECT / "docs" / "guide" / "flows.md").read_text()

    assert f"`{name}(" in guide


@pytest.mark.parametrize("kind", [Collect, CountEvents])
def test_what_is_in_memory_goes_back_to_a_checkpoint(kind: Any) -> None:
    sink = kind()
    sink.open(None)
    write_all(sink, [*range(10)])
    saved = carried(sink.checkpoint())
    write_all(sink, [*range(10, 15)])
    sink.open(saved)
    write_all(sink, [*range(10, 12)])
    sink.close()

    assert (sink.events if kind is Collect else [*range(sink.count)]) == [*range(12)]


def test_calls_are_made_for_each_event(capsys: pytest.CaptureFixture[str]) -> None:
    called: list[int] = []
    for sink in (Each(called.append), Print()):
        sink.open(None)
        write_all(sink, [1, 2, 3])
        assert sink.checkpoint() is None
        sink.close()

    assert called == [1, 2, 3]
    assert capsys.readouterr().out == "1\n2\n3\n"
