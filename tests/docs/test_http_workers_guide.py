"""The worker that the guide shows, in plain Python, does jobs of a real dispatcher."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from system.yard import PATIENCE, Yard, until

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "http-workers.md"
PROGRAM = re.search(r"^```python\n(?P<code>.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    place = Yard(tmp_path)
    yield place
    place.close()


def test_the_worker_of_the_guide_does_what_it_says(yard: Yard) -> None:
    assert PROGRAM is not None
    program = yard.folder / "shout_worker.py"
    program.write_text(PROGRAM["code"])
    base = f"http://127.0.0.1:{yard.dispatcher().http_port}"

    def ask(method: str, path: str, **how: Any) -> Any:
        answer = httpx.request(method, base + path, timeout=PATIENCE, trust_env=False, **how)
        assert answer.is_success, answer.text
        return answer.json()

    def submit(job_id: str, *args: Any) -> None:
        body = {"id": job_id, "type": "shout", "payload": list(args)}
        ask("POST", "/dispatcher/jobs/", json=body)

    def ended(job_id: str) -> Any:
        path = f"/dispatcher/jobs/{job_id}"
        return until(lambda: (job := ask("GET", path))["status"] in "cfx" and job, what=job_id)

    with (
        open(yard.folder / "shout_worker.log", "wb") as log,
        subprocess.Popen(
            [sys.executable, program], env={**os.environ, "DISPATCHER": base}, stderr=log
        ) as worker,
    ):
        try:
            for number in range(10):
                submit(f"a/{number}", f"hi there {number}")
            submit("bad", 5)
            assert [ended(f"a/{n}")["result"] for n in range(10)] == [
                f"HI THERE {n}" for n in range(10)
            ]
            assert "AttributeError" in ended("bad")["error"]["message"]
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(PATIENCE) == 0
        finally:
            worker.kill()
    (left,) = ask("GET", "/dispatcher/workers/")["workers"]
    assert left["state"] == "resigned"
    assert "Traceback" not in (yard.folder / "shout_worker.log").read_text()
