"""What is said of a run's output: path and size, of one file, of parts, of a folder."""

from __future__ import annotations

from pathlib import Path

from shunter import Flow
from shunter.cli.outputs import Output, as_line, outputs_of
from shunter.flow.runners.local import run
from shunter.flow.sinks import Collect, WriteJsonLines, WriteParquet


def test_files_parts_and_folders_are_named_with_their_sizes(tmp_path: Path) -> None:
    flow = Flow("written", on_error=WriteJsonLines(tmp_path / "letters.jsonl"))
    numbers = flow.source(range(10))
    numbers.sink(WriteJsonLines(tmp_path / "one.jsonl"), name="one")
    numbers.balanced().sink(WriteJsonLines(tmp_path / "many.jsonl"), name="many", workers=2)
    rows = numbers.map(lambda n: {"n": n}, name="rows")
    rows.sink(WriteParquet(tmp_path / "rows.parquet"), name="table")
    numbers.sink(Collect(), name="memory")

    run(flow)

    found = {output.path: output for output in outputs_of(flow)}
    assert {Path(path).name: output.stage for path, output in found.items()} == {
        "one.jsonl": "one",
        "many-00000-of-00002.jsonl": "many",
        "many-00001-of-00002.jsonl": "many",
        "rows.parquet": "table",
        "letters.jsonl": "dead letters",
    }
    assert found[str(tmp_path / "one.jsonl")].bytes == 20
    assert found[str(tmp_path / "rows.parquet")].bytes > 100


def test_sizes_are_easy_to_read() -> None:
    assert as_line(Output("one", "one.jsonl", 20)) == "one: one.jsonl, 20 bytes"
    assert as_line(Output("one", "one.jsonl", 1_234_567)) == "one: one.jsonl, 1.2 MB"
