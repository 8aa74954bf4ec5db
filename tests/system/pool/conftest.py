"""The fixture with which a synchronous test drives a pool of real child processes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shunter.worker.pool.process_pool import PoolSettings
from system.pool.foreman import Drive, Foreman, Scenario, is_alive


@pytest.fixture
def drive() -> Drive:
    """Run a scenario with a pool; afterwards no child is left and no job was reported twice."""

    def run(scenario: Scenario, **settings: Any) -> None:
        async def main() -> None:
            options = {"slots": 1, "grace": 0.25} | settings
            foreman = Foreman(PoolSettings(**options))
            await foreman.pool.start()
            await foreman.until(lambda: foreman.pool.slots == options["slots"])
            children = foreman.pids()
            try:
                await scenario(foreman)
            finally:
                children += foreman.pids()
                await foreman.pool.stop(grace=0.0)
            assert foreman.doubles == []
            assert [pid for pid in children if is_alive(pid)] == []

        asyncio.run(main())

    return run
