"""Our UDP client alone, against a dispatcher that the test plays by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from shunter.client import AddedTask, AsyncUdpClient, UdpClient, udp_client
from shunter.errors import (
    DispatcherBusy,
    JobError,
    JobFailed,
    JobRefused,
    NotPlaced,
    ResultTimeout,
    SettingsError,
    Unreachable,
)
from shunter.model.retry import Retry
from system.udp.fake_dispatcher import FakeDispatcher, Said, SignedDispatcher
from system.yard import PATIENCE

SUCCESS = {"method": "notify_task", "packet_type": 1, "transmission_id": 77}


@pytest.fixture
def dispatcher() -> Iterator[FakeDispatcher]:
    fake = FakeDispatcher()
    yield fake
    fake.close()


@pytest.fixture
def client(dispatcher: FakeDispatcher) -> Iterator[UdpClient]:
    with UdpClient(dispatcher.address, timeout=PATIENCE) as made:
        yield made


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


@pytest.fixture
def task(dispatcher: FakeDispatcher, client: UdpClient, pool: ThreadPoolExecutor) -> AddedTask:
    """A task that the dispatcher has confirmed."""
    adding = pool.submit(client.add_task, "add", [1, 2], task_id=5)
    dispatcher.confirms(dispatcher.hears("add_task"))
    return adding.result(PATIENCE)


def success(**params: Any) -> Said:
    return {**SUCCESS, "params": {"status": "success", "task_id": 5, **params}}


def bad_news(status: str, **params: Any) -> Said:
    params = {"status": status, "task_id": 5, **params}
    return {"method": "notify_task", "params": params, "packet_type": 0}


def test_a_bare_task_is_the_seed_s_packet(
    dispatcher: FakeDispatcher, client: UdpClient, pool: ThreadPoolExecutor
) -> None:
    adding = pool.submit(client.add_task, task_id=5)

    said = dispatcher.hears("add_task")
    seed = {"method": "add_task", "params": {"task_id": 5}, "packet_type": 1}
    seed["transmission_id"] = said["transmission_id"]
    assert dispatcher.raw == json.dumps(seed, separators=(",", ":")).encode()
    assert not adding.done()
    dispatcher.confirms(said)
    assert adding.result(PATIENCE).id == 5


def test_a_task_has_type_payload_and_priority(
    dispatcher: FakeDispatcher, client: UdpClient, pool: ThreadPoolExecutor
) -> None:
    adding = pool.submit(client.add_task, "add", [1, b"\x00\xff"], priority=7)

    said = dispatcher.hears("add_task")
    dispatcher.confirms(said)
    params = said["params"]
    assert params.pop("task_id") == adding.result(PATIENCE).id
    assert params == {"type": "add", "payload": [1, {"$bytes": "AP8="}], "priority": 7}


def test_automatic_ids_differ_also_after_a_restart(dispatcher: FakeDispatcher) -> None:
    ids: set[object] = set()

    async def add(client: AsyncUdpClient) -> None:
        async with asyncio.TaskGroup() as group:
            adding = [group.create_task(client.add_task()) for _ in range(50)]
            for _ in adding:
                said = await asyncio.to_thread(dispatcher.hears, "add_task")
                ids.update((said["transmission_id"], said["params"]["task_id"]))
                dispatcher.confirms(said)

    async def twice() -> None:
        for _ in range(2):
            async with AsyncUdpClient(dispatcher.address) as client:
                await add(client)

    asyncio.run(twice())

    assert len(ids) == 200
    assert all(isinstance(found, str) and len(found) == 26 for found in ids)


def test_a_task_is_sent_again_until_it_is_confirmed(
    dispatcher: FakeDispatcher, client: UdpClient, pool: ThreadPoolExecutor
) -> None:
    adding = pool.submit(client.add_task, task_id=5)

    first, second = dispatcher.hears("add_task"), dispatcher.hears("add_task")

    assert first == second
    assert not adding.done()
    dispatcher.confirms(second)
    dispatcher.confirms(second)
    adding.result(PATIENCE)
    assert dispatcher.hears_no("add_task", during=1.2)


def test_a_success_is_told_once_and_confirmed_each_time(
    dispatcher: FakeDispatcher, task: AddedTask
) -> None:
    for _ in range(3):
        dispatcher.says(success(result=[3, {"$bytes": "YWI="}], job_id="j-1"))
        assert dispatcher.hears(None) == {"packet_type": 2, "transmission_id": 77}

    assert task.result(PATIENCE) == [3, b"ab"]
    assert task.job_id == "j-1"
    dispatcher.says({**success(result=4), "transmission_id": 78})
    assert dispatcher.hears(None)["transmission_id"] == 78
    assert task.result(PATIENCE) == [3, b"ab"]


def test_the_seed_s_own_notice_of_success_is_taken_and_not_answered(
    dispatcher: FakeDispatcher, task: AddedTask
) -> None:
    dispatcher.says(
        b'{"method": "notify_task", "params": {"status": "success", "task_id": 5}, '
        b'"packet_type": 0}'
    )

    assert task.result(PATIENCE) is None
    assert dispatcher.hears_no(None)


def test_a_notice_says_that_the_task_was_added(
    dispatcher: FakeDispatcher, client: UdpClient, pool: ThreadPoolExecutor
) -> None:
    """The confirmation got lost, and the result is here before the next one."""
    adding = pool.submit(client.add_task, task_id=5)
    dispatcher.hears("add_task")

    dispatcher.says(success(result=1))

    assert adding.result(PATIENCE).result(PATIENCE) == 1


def test_an_error_is_raised_and_not_confirmed(dispatcher: FakeDispatcher, task: AddedTask) -> None:
    dispatcher.says(bad_news("error", error="ValueError: no"))

    with pytest.raises(JobFailed, match=r"job 5: failed .exception.: ValueError: no"):
        task.result(PATIENCE)
    assert dispatcher.hears_no(None)


def test_a_failed_post_is_an_error_of_its_own(dispatcher: FakeDispatcher, task: AddedTask) -> None:
    dispatcher.says(bad_news("failed_post"))

    with pytest.raises(NotPlaced, match=r"job 5: failed .unplaced.: no worker took it in time"):
        task.result(PATIENCE)


@pytest.mark.parametrize(
    ("error", "kind", "match"),
    [
        ({"code": "busy", "message": "wait for some"}, DispatcherBusy, "busy: wait for some"),
        ({"code": "busy"}, DispatcherBusy, "wait for some of it to end, then send it again"),
        (
            {"code": "fields", "field": "params.type", "message": "no"},
            JobRefused,
            "params.type: no",
        ),
        ("what?", JobRefused, "what"),
    ],
)
def test_a_refusal_is_raised_with_its_remedy(
    dispatcher: FakeDispatcher,
    client: UdpClient,
    pool: ThreadPoolExecutor,
    error: object,
    kind: type[Exception],
    match: str,
) -> None:
    adding = pool.submit(client.add_task, task_id=5)
    dispatcher.confirms(dispatcher.hears("add_task"), error=error)

    with pytest.raises(kind, match=match):
        adding.result(PATIENCE)

    again: Future[AddedTask] = pool.submit(client.add_task, task_id=5)
    dispatcher.confirms(dispatcher.hears("add_task"))
    assert again.result(PATIENCE).id == 5


def test_a_task_too_large_for_a_packet_is_refused_before_it_is_sent(
    dispatcher: FakeDispatcher, client: UdpClient
) -> None:
    with pytest.raises(JobRefused, match="at most 1200 are allowed; store the data elsewhere"):
        client.add_task("add", ["x" * 1200], task_id=5)

    assert dispatcher.hears_no("add_task")


def test_an_id_that_is_under_way_is_refused(client: UdpClient, task: AddedTask) -> None:
    with pytest.raises(JobRefused, match="task_id: is under way already"):
        client.add_task(task_id=task.id)


def test_nobody_there_is_said_after_the_time_out(dispatcher: FakeDispatcher) -> None:
    with (
        UdpClient(dispatcher.address, timeout=0.7) as client,
        pytest.raises(Unreachable, match=r"no dispatcher answered at udp 127.0.0.1:\d+ within 0.7"),
    ):
        client.add_task()


def test_a_name_that_nobody_knows_is_said() -> None:
    with (
        UdpClient(("nobody.invalid", 5555)) as client,
        pytest.raises(SettingsError, match=r"nobody.invalid:5555, which can't be resolved"),
    ):
        client.add_task()


def test_waiting_has_an_end_and_the_task_goes_on(
    dispatcher: FakeDispatcher, task: AddedTask
) -> None:
    with pytest.raises(ResultTimeout):
        task.wait(0.1)

    dispatcher.says(success())
    assert task.result(PATIENCE) is None


def test_what_others_send_and_what_is_no_packet_does_nothing(
    dispatcher: FakeDispatcher, client: UdpClient, task: AddedTask
) -> None:
    stranger = FakeDispatcher()
    here = client._async.address

    stranger.says(success(result="forged"), here)
    for junk in (b"", b"\xff\x00", b"[]", b"{}", b"{" * 500, b'{"packet_type":2}'):
        dispatcher.says(junk, here)
    dispatcher.says({"packet_type": 2, "transmission_id": "nobody asked"}, here)
    dispatcher.says({**success(), "params": {"status": "success", "task_id": 6}}, here)
    dispatcher.says({**success(result="true"), "transmission_id": 79}, here)

    assert task.result(PATIENCE) == "true"
    assert dispatcher.hears(None)["transmission_id"] == 79
    assert stranger.hears_no(None)
    stranger.close()


def test_a_closed_client_lets_nobody_wait() -> None:
    async def wait_and_close() -> None:
        fake = FakeDispatcher()
        async with AsyncUdpClient(fake.address) as inner:
            adding = asyncio.ensure_future(inner.add_task(task_id=5))
            fake.confirms(await asyncio.to_thread(fake.hears, "add_task"))
            waiting = asyncio.ensure_future((await adding).wait())
            never = asyncio.ensure_future(inner.add_task(task_id=6))
            await asyncio.sleep(0.05)
        with pytest.raises(JobError, match="its client was closed"):
            await waiting
        with pytest.raises(Unreachable):
            await never
        fake.close()

    asyncio.run(wait_and_close())


def test_ten_thousand_tasks_are_in_flight_at_a_time(dispatcher: FakeDispatcher) -> None:
    count = 10_000

    def play() -> None:
        known: dict[Any, Said] = {}
        while len(known) < count:
            said = dispatcher.hears("add_task")
            known[said["params"]["task_id"]] = said
            dispatcher.confirms(said)
        for number, task_id in enumerate(known):
            params = {"status": "success", "task_id": task_id, "result": number}
            dispatcher.says({**SUCCESS, "params": params, "transmission_id": number})
            if number % 200 == 199:
                for _ in range(200):
                    dispatcher.hears(None)

    async def add() -> int:
        playing = asyncio.get_running_loop().run_in_executor(None, play)
        async with AsyncUdpClient(dispatcher.address, timeout=60.0) as client:
            tasks = await client.submit_many("add", ((n, n) for n in range(count)))
            results = await asyncio.gather(*(task.result(2 * PATIENCE) for task in tasks))
            await playing
        return len(set(results))

    assert asyncio.run(add()) == count


def test_with_a_secret_all_is_signed_and_nothing_else_taken() -> None:
    secret = b"0123456789abcdef"
    dispatcher = SignedDispatcher(secret)

    async def add() -> Any:
        async with AsyncUdpClient(dispatcher.address, secret) as client:
            adding = asyncio.ensure_future(client.add_task(task_id=5))
            said, peer = await asyncio.to_thread(dispatcher.hears_signed)
            assert said["params"] == {"task_id": 5}
            dispatcher.confirms(said)
            await asyncio.sleep(0.1)
            assert not adding.done()
            answer = {"packet_type": 2, "transmission_id": said["transmission_id"]}
            dispatcher.says_signed(answer, peer)
            task = await adding
            dispatcher.says_signed(success(result="signed"), peer)
            return await task.result(PATIENCE)

    try:
        assert asyncio.run(add()) == "signed"
    finally:
        dispatcher.close()


def test_a_client_that_waits_says_so_and_is_told_then(
    dispatcher: FakeDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(udp_client, "PINGS", Retry(delay=0.1, max_delay=30.0))

    async def add() -> Any:
        async with AsyncUdpClient(dispatcher.address) as client:
            adding = asyncio.ensure_future(client.add_task(task_id=5))
            dispatcher.confirms(await asyncio.to_thread(dispatcher.hears, "add_task"))
            task = await adding
            assert (await asyncio.to_thread(dispatcher.hears, "ping"))["packet_type"] == 0
            dispatcher.says(success(result="heard"))
            return await task.result(PATIENCE)

    assert asyncio.run(add()) == "heard"
