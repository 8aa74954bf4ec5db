"""What a dispatcher does by the clock, a sandbox does by the functions that the service calls."""

from __future__ import annotations

from typing import Any

import pytest

from shunter import App
from shunter.dispatch import sweep
from shunter.testing import Sandbox

app = App()


@app.job
def noop() -> None: ...


async def nothing(*_: Any) -> None: ...


def test_an_alarm_rings_in_a_sandbox_by_what_rings_it_in_the_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Sandbox(app) as sandbox:
        job = sandbox.with_options(delay=60).submit(noop)
        with monkeypatch.context() as patched:
            patched.setattr(sweep, "watch_the_clock", nothing)
            sandbox.clock.advance(61)
            sandbox.run()
            assert not job.status.is_final

        sandbox.run()
        assert job.status.is_final


def test_the_lists_of_sweeps_are_gone_through_by_one_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[sweep.Sweep] = []

    async def noted(_: Any, *sweeps: sweep.Sweep) -> None:
        done.extend(sweeps)

    monkeypatch.setattr(sweep, "go_through", noted)
    with Sandbox(app) as sandbox:
        sandbox.advance(1)

    assert done == [*sweep.OFTEN, *sweep.NOW_AND_THEN, *sweep.RARELY]
