"""Clients that a sandbox opens for a program under test."""

from __future__ import annotations

import asyncio

import pytest

from shunter import App, JobFailed, Status
from shunter.client import AsyncClient, Client, UdpClient
from shunter.client.session_opener import session_opener
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


@app.job
def add_by_udp() -> None:
    with UdpClient():
        pass


@app.job
async def add_twice() -> list[str]:
    """Open clients of all kinds that reach the sandbox."""

    def in_a_thread() -> str:
        with Client() as client:
            return client.submit(add, 1, 2).id

    async with AsyncClient() as client:
        return [(await client.submit(add, 3, 4)).id, await asyncio.to_thread(in_a_thread)]


def test_a_udp_client_inside_a_handler_reaches_no_real_dispatcher() -> None:
    with Sandbox(app) as sandbox, pytest.raises(JobFailed, match="open a Client, which reaches"):
        sandbox.submit(add_by_udp).result()
    UdpClient()


def test_clients_inside_a_coroutine_and_its_threads_reach_the_sandbox() -> None:
    with Sandbox(app) as sandbox:
        ids = sandbox.submit(add_twice).result()
        sandbox.run()

        assert [sandbox.job(job_id).status for job_id in ids] == [Status.COMPLETED] * 2


def test_other_clients_are_not_led_into_the_sandbox() -> None:
    with Sandbox(app) as sandbox, sandbox.client():
        assert session_opener.get() is None
