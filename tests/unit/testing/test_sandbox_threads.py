"""Threads and executors that a handler in a sandbox uses: they belong to its run."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from shunter import App, JobFailed, Status
from shunter.client import Client, UdpClient
from shunter.client.session_opener import session_opener
from shunter.testing import Sandbox
from shunter.testing.shared_patch import SharedPatch

Work = Callable[[], None]

others_pool = ThreadPoolExecutor(1)


class Database: ...


class OwnThread(threading.Thread):
    def __init__(self, work: Work) -> None:
        super().__init__()
        self._work = work

    def run(self) -> None:
        self._work()


def joined(thread: threading.Thread) -> None:
    thread.start()
    thread.join()


def in_a_pool(work: Work) -> None:
    with ThreadPoolExecutor(2) as pool:
        pool.submit(work).result()


def by_an_initializer(work: Work) -> None:
    with ThreadPoolExecutor(2, initializer=work) as pool:
        pool.submit(int).result()


WAYS: dict[str, Callable[[Work], None]] = {
    "a thread": lambda work: joined(threading.Thread(target=work)),
    "a daemon": lambda work: joined(threading.Thread(target=work, daemon=True)),
    "a thread with a run of its own": lambda work: joined(OwnThread(work)),
    "a timer": lambda work: joined(threading.Timer(0.0, work)),
    "a thread of a thread": lambda work: joined(OwnThread(lambda: joined(OwnThread(work)))),
    "a pool": in_a_pool,
    "the initializer of a pool": by_an_initializer,
    "a pool that was there before": lambda work: others_pool.submit(work).result(),
    "a loop's executor": lambda work: asyncio.run(asyncio.to_thread(work)),
}


def app_that_runs(handler: Callable[..., Any], **options: Any) -> App:
    app = App()
    app.job(name="add")(lambda a, b: a + b)
    app.job(name="tested", **options)(handler)
    return app


def submit() -> str:
    with Client(timeout=0.5) as client:
        return client.submit("add", 1, 2).id


@pytest.mark.parametrize("way", WAYS)
def test_a_client_in_a_thread_of_a_handler_reaches_the_sandbox(way: str) -> None:
    def handler() -> list[str]:
        made: list[str] = []
        WAYS[way](lambda: made.append(submit()))
        return made

    with Sandbox(app_that_runs(handler)) as sandbox:
        (job_id,) = sandbox.submit("tested").result()
        sandbox.run()

        assert sandbox.job(job_id).status is Status.COMPLETED


def test_a_udp_client_in_a_thread_of_a_handler_reaches_no_real_dispatcher() -> None:
    def handler() -> None:
        with ThreadPoolExecutor() as pool:
            pool.submit(UdpClient).result()

    with (
        Sandbox(app_that_runs(handler)) as sandbox,
        pytest.raises(JobFailed, match="open a Client, which reaches"),
    ):
        sandbox.submit("tested").result()


def test_the_threads_of_others_and_what_they_hand_over_stay_outside() -> None:
    running, looked = threading.Event(), threading.Event()
    seen: list[object] = []

    def look() -> None:
        seen.append(session_opener.get())

    def others() -> None:
        running.wait(10)
        joined(threading.Thread(target=look))
        others_pool.submit(look).result()
        looked.set()

    def handler() -> None:
        others_pool.submit(int).result()
        running.set()
        assert looked.wait(10)

    other = threading.Thread(target=others)
    other.start()
    with Sandbox(app_that_runs(handler)) as sandbox:
        sandbox.submit("tested").result()
    other.join()

    assert seen == [None, None]


def test_all_is_as_before_when_the_handler_is_done() -> None:
    def replaced() -> list[Any]:
        return [
            threading.Thread.start,
            ThreadPoolExecutor.submit,
            ThreadPoolExecutor.__init__,
            threading.Thread.join,
            Future.result,
            time.sleep,
        ]

    before, meanwhile = replaced(), list[Any]()
    with Sandbox(app_that_runs(lambda: meanwhile.extend(replaced()))) as sandbox:
        sandbox.submit("tested").result()

        assert not set(before) & set(meanwhile)
        assert replaced() == before


def test_threads_that_sleep_side_by_side_take_as_long_as_the_longest() -> None:
    def sleep_twice(first: float, second: float) -> None:
        time.sleep(first)
        time.sleep(second)

    def handler() -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(sleep_twice, range(8), [20.0] * 7 + [23.0]))
        joined(threading.Thread(target=time.sleep, args=[5.0]))
        time.sleep(2.0)

    with Sandbox(app_that_runs(handler, timeout=50)) as sandbox:
        before = sandbox.clock()
        sandbox.submit("tested").result()

        assert sandbox.clock() == before + 37.0


def test_threads_that_a_coroutine_awaits_take_their_time_too() -> None:
    async def handler() -> None:
        await asyncio.to_thread(time.sleep, 3.0)
        await asyncio.to_thread(time.sleep, 4.0)
        await asyncio.sleep(5.0)
        time.sleep(6.0)

    with Sandbox(app_that_runs(handler)) as sandbox:
        before = sandbox.clock()
        sandbox.submit("tested").result()

        assert sandbox.clock() == before + 18.0


def test_a_thread_that_sleeps_past_the_deadline_ends_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def handler() -> None:
        joined(threading.Thread(target=time.sleep, args=[61]))

    with Sandbox(app_that_runs(handler, timeout=60, retries=0)) as sandbox:
        job = sandbox.submit("tested")
        with pytest.raises(JobFailed, match="ran past its time-out of 60 s"):
            job.result()
        assert "Traceback" not in job.log


def test_a_daemon_that_sleeps_over_and_over_does_not_move_the_clock() -> None:
    def handler() -> int:
        beats, enough = [0], threading.Event()

        def beat() -> None:
            while not enough.is_set():
                beats[0] += 1
                if beats[0] == 20:
                    enough.set()
                time.sleep(5)

        joined(threading.Thread(target=beat, daemon=True))
        return beats[0]

    with Sandbox(app_that_runs(handler, timeout=60)) as sandbox:
        before = sandbox.clock()

        assert sandbox.submit("tested").result() == 20
        assert sandbox.clock() == before


def test_jobs_that_several_threads_wait_for_run_one_after_the_other() -> None:
    at_work, most = [0], [0]

    def child(n: int) -> int:
        at_work[0] += 1
        most[0] = max(most[0], at_work[0])
        threading.Event().wait(0.01)  # really
        at_work[0] -= 1
        print("child", n)
        return n

    def ask(n: int) -> int:
        with Client(timeout=5) as client:
            result: int = client.submit("child", n).result(timeout=20)
            return result

    def handler() -> list[int]:
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(ask, range(8)))

    app, output = app_that_runs(handler), (sys.stdout, sys.stderr)
    app.job(name="child")(child)
    with Sandbox(app) as sandbox:
        assert sandbox.submit("tested").result() == list(range(8))

    assert most == [1]
    assert (sys.stdout, sys.stderr) == output


def test_a_client_in_a_coroutine_of_an_app_with_setups_reaches_the_sandbox() -> None:
    async def handler() -> str:
        return await asyncio.to_thread(submit)

    app = app_that_runs(handler)

    @app.setup
    async def database() -> AsyncIterator[Database]:
        yield Database()

    with Sandbox(app) as sandbox:
        assert sandbox.job(sandbox.submit("tested").result()).type == "add"


def test_a_client_in_a_hook_reaches_the_sandbox() -> None:
    made: list[str] = []

    def handler() -> None:
        raise ValueError("no")

    app = app_that_runs(handler, retries=0)
    app.on_final_failure(lambda: made.append(submit()))
    with Sandbox(app) as sandbox:
        sandbox.submit("tested")
        sandbox.run()

        assert [sandbox.job(job_id).type for job_id in made] == ["add"]


def test_what_is_replaced_comes_back_when_the_last_who_needs_it_is_done() -> None:
    class Owner:
        value = 1

    first = patch = SharedPatch((Owner, "value", lambda real: real + 1))
    with first:
        patch.__enter__()
        assert Owner.value == 2
    assert Owner.value == 2
    patch.__exit__()
    assert Owner.value == 1
