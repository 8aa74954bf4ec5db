"""Clients that a sandbox opens for a program under test."""

from __future__ import annotations

import asyncio

import pytest

from shunter import App, JobFailed
from shunter.testing import Sandbox

app = App()


@app.job
def add(a: int, b: int) -> int:
    return a + b


@app.job
async def double(n: int) -> int:
    await asyncio.sleep(3600)
    return 2 * n


@app.job
def fail() -> None:
    raise ValueError("no")


def test_a_client_of_a_sandbox_submits_waits_and_sees_records() -> None:
    with Sandbox(app) as sandbox, sandbox.client() as client:
        job = client.submit(add, 1, 2)
        assert not job.status().is_final
        sandbox.run()

        assert client.job(job.id).value == 3
        assert client.submit(double, 4).result(timeout=20) == 8
        with pytest.raises(JobFailed, match="no"):
            client.submit("fail").result(timeout=20)
        assert len(client.jobs()) == 3


def test_an_async_client_of_a_sandbox_runs_async_handlers() -> None:
    async def program(sandbox: Sandbox) -> list[int]:
        async with sandbox.async_client() as client:
            jobs = [await client.submit(double, n) for n in (1, 2)]
            return [await job.result(timeout=20) for job in jobs]

    with Sandbox(app) as sandbox:
        assert asyncio.run(program(sandbox)) == [2, 4]


def test_other_clients_are_not_led_into_the_sandbox() -> None:
    from shunter.context import current_context

    with Sandbox(app) as sandbox, sandbox.client():
        assert current_context() is None
