"""With which code commands end where a flow is wrong, and where its run fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shunter.cli.main import main

RAISES = """
from shunter import Flow

def divide(n):
    return 1 / n

flow = Flow("quotients")
flow.source([1, 0]).map(divide).sink(lambda event: None)
"""

SINK_RAISES = RAISES.replace("lambda event: None", "divide").replace(".map(divide)", "")

NO_INPUT = """
from shunter import Flow
from shunter.flow.sources import JsonLines

flow = Flow("f")
flow.source(JsonLines("missing.jsonl")).sink(print)
"""

CASES = [
    (RAISES, 1, "flow.py:8: stage 'divide': ZeroDivisionError"),
    (SINK_RAISES, 1, "flow.py:8: stage 'divide': ZeroDivisionError"),
    (NO_INPUT, 2, "missing.jsonl"),
    ("from shunter import Flow\nflow = Flow('f')\nflow.source([1])", 2, "flow.py"),
    ("from shunter import Flow\nflow = Flow('f'", 2, "flow.py"),
    ("import nowhere", 2, "No module named 'nowhere'"),
    ("", 2, "no Flow"),
]


@pytest.mark.parametrize(("code", "exit_code", "said"), CASES)
def test_a_mistake_exits_2_and_a_run_that_fails_1(
    code: str,
    exit_code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "flow.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["shunter", "flow", "run", "--on", "local", "flow.py"])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    with pytest.raises(SystemExit) as ended:
        main()

    assert (ended.value.code, said in capsys.readouterr().err) == (exit_code, True)
