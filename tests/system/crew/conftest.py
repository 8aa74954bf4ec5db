"""The fixture with which a synchronous test drives a crew of real child processes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shunter.worker.crew import CrewSettings
from system.crew.foreman import Drive, Foreman, Scenario, is_alive


@pytest.fixture
def drive() -> Drive:
    """Run a scenario with a crew; afterwards no child is left and no job was reported twice."""

    def run(scenario: Scenario, **settings: Any) -> None:
        async def main() -> None:
            options = {"slots": 1, "grace": 0.25} | settings
            foreman = Foreman(CrewSettings(**options))
            await foreman.crew.start()
            await foreman.until(lambda: foreman.crew.slots == options["slots"])
            children = foreman.pids()
            try:
                await scenario(foreman)
            finally:
                children += foreman.pids()
                await foreman.crew.stop(grace=0.0)
            assert foreman.doubles == []
            assert [pid for pid in children if is_alive(pid)] == []

        asyncio.run(main())

    return run
