"""Steps, sleeps, signals, children and streams, in a sandbox: what a handler and its users see."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from shunter import App, Context, Retry
from shunter.aes_codec import AesCodec
from shunter.errors import (
    ChildFailed,
    JobNotFound,
    JobRefused,
    SignalTimeout,
    StepRefused,
    StreamRestarted,
)
from shunter.model.job import ErrorKind, Status
from shunter.testing import Sandbox

DAY = 86400.0
RETRY = Retry(limit=3, delay=1.0, jitter=0.0)


class Order:
    """Handlers with steps, and what they did."""

    def __init__(self, codec: AesCodec | None = None) -> None:
        self.app = App(codec=codec)
        self.done: list[str] = []
        self.before_second: list[str] = []
        app = self.app

        @app.job(retry=RETRY)
        def pay(ctx: Context, order: int, fails: int = 1) -> list[object]:
            paid = ctx.step("pay", self.charge, order)
            if ctx.attempt <= fails:
                raise ValueError("try again")
            return [paid, ctx.attempt]

        @app.job(name="pay-async", retry=RETRY)
        async def pay_async(ctx: Context, order: int, fails: int = 1) -> list[object]:
            async def charge(order: int) -> dict[str, int]:
                await asyncio.sleep(1.0)
                return self.charge(order)

            paid, told = await asyncio.gather(
                ctx.step("pay", charge, order), ctx.step("tell", self.charge, order + 1)
            )
            if ctx.attempt <= fails:
                raise ValueError("try again")
            return [paid, told, ctx.attempt]

        @app.job
        def nap(ctx: Context) -> int:
            ctx.step("first", self.do, "first")
            ctx.emit("a")
            ctx.sleep("cool off", days=1)
            for name in self.before_second:
                ctx.step(name, self.do, name)
            ctx.emit("b")
            ctx.step("second", self.do, "second")
            return ctx.attempt

        @app.job(name="nap-async")
        async def nap_async(ctx: Context) -> int:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(ctx.sleep("cool off", hours=1))
            return ctx.attempt

        @app.job
        def approval(ctx: Context, timeout: float | None = None) -> object:
            return ctx.wait("approved", timeout=timeout)

        @app.job
        def votes(ctx: Context) -> list[object]:
            return [ctx.wait(f"vote {n}", signal="vote") for n in range(2)]

        @app.job(name="print")
        def print_(page: int) -> int:
            if page < 0:
                raise ValueError("no such page")
            return page * 2

        @app.job
        def book(ctx: Context, pages: list[int]) -> list[int]:
            printed = ctx.gather("pages", [("print", page) for page in pages])
            ctx.sleep("dry", 60)
            return printed + ctx.gather("cover", [("print", 100)])

    def charge(self, order: int) -> dict[str, int]:
        self.do(f"charge {order}")
        return {"paid": order}

    def do(self, what: str) -> None:
        self.done.append(what)


@pytest.fixture
def order() -> Order:
    return Order()


@pytest.fixture
def sandbox(order: Order) -> Iterator[Sandbox]:
    with Sandbox(order.app) as sandbox:
        yield sandbox


def one_off(handler) -> App:
    app = App()
    app.job(handler)
    return app


# ---- steps


@pytest.mark.parametrize("kind", ["pay", "pay-async"])
def test_a_repeated_run_gets_kept_results_and_does_no_step_again(order, sandbox, kind):
    job = sandbox.submit(kind, 5)
    sandbox.settle()

    assert job.result()[0] == {"paid": 5}
    assert job.result()[-1] == 2
    assert order.done.count("charge 5") == 1
    assert order.done.count("charge 6") == (kind == "pay-async")
    assert {step.key: step.attempt for step in job.steps}["pay"] == 1


def test_a_process_that_dies_does_not_lose_its_kept_steps(order, sandbox):
    job = sandbox.submit("pay", 5)
    sandbox.run()
    sandbox.crash_next()
    sandbox.settle()

    assert job.result() == [{"paid": 5}, 3]
    assert order.done == ["charge 5"]


def test_other_arguments_under_a_kept_name_fail_or_are_called_anew():
    done = []

    def changing(ctx: Context, on_change: str) -> list[int]:
        kept = ctx.step("pay", done.append, ctx.attempt, on_change=on_change)
        assert kept is None
        if ctx.attempt == 1:
            raise ValueError
        return done

    app = App()
    app.job(changing, retry=RETRY)
    with Sandbox(app) as sandbox:
        failing, again = sandbox.submit("changing", "fail"), sandbox.submit("changing", "rerun")
        sandbox.settle()

        error = failing.record.error
        assert failing.status is Status.FAILED
        assert "arguments are others" in error.message
        assert "on_change" in error.message
        assert again.status is Status.COMPLETED
        assert done == [1, 1, 2]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda ctx: [ctx.step("a", int), ctx.step("a", int)], "'a': the name is used twice"),
        (lambda ctx: ctx.step("a", lambda: bytes(200_000)), "'a': its result has 200,0"),
        (
            lambda ctx: [ctx.step("a", int), ctx.wait("a", signal="s")],
            "own, as in ctx.wait('a again', signal='s')",
        ),
        (lambda ctx: ctx.emit(bytes(200_000)), "'emit': the chunk has 200,0"),
        (lambda ctx: ctx.step("a", object), "'a': its result can't be kept"),
        (lambda ctx: ctx.step("a", print, object()), "'a': its arguments can't be compared"),
        (lambda ctx: ctx.step("", int), "'': 0 characters"),
        (lambda ctx: ctx.step("a", int, on_change="x"), "on_change: found 'x'"),
        (lambda ctx: ctx.step("a", asyncio.sleep, 0), "is async def"),
        (lambda ctx: ctx.sleep("a", -1), "found -1 s"),
        (lambda ctx: ctx.sleep("a", years=1), "years: unknown"),
        (lambda ctx: ctx.wait("a", timeout=-1), "timeout: found -1"),
        (lambda ctx: ctx.gather("a", [5]), "'a': found 5; give tuples"),
        (lambda ctx: ctx.gather("a", [("print", 1)] * 1001), "1,001 jobs"),
        (lambda ctx: ctx.gather("a", [("no type!", 1)]), "type: found 'no type!'"),
    ],
)
def test_what_can_t_be_a_step_is_refused_with_the_job_the_name_and_a_remedy(use, message):
    def wrong(ctx: Context) -> None:
        use(ctx)

    with Sandbox(one_off(wrong)) as sandbox:
        job = sandbox.submit("wrong")
        sandbox.settle()

        assert job.status is Status.FAILED
        assert message in job.record.error.message
        assert job.id in job.record.error.message or "async def" in message


def test_a_handler_that_catches_parked_and_goes_on_fails():
    def stubborn(ctx: Context) -> int:
        try:
            ctx.sleep("rest", 5)
        except BaseException:
            return 1

    with Sandbox(one_off(stubborn)) as sandbox:
        job = sandbox.submit("stubborn")
        sandbox.settle()

        assert job.record.error.kind is ErrorKind.REFUSED
        assert "caught Parked" in job.record.error.message


def test_a_step_costs_one_commit_and_a_plain_job_none_more(monkeypatch):
    def stepped(ctx: Context, count: int) -> None:
        for number in range(count):
            ctx.step(f"step {number}", int)

    with Sandbox(one_off(stepped)) as sandbox:
        batches = []
        commit = sandbox.store.commit
        monkeypatch.setattr(
            sandbox.store, "commit", lambda batch: [batches.append(batch), commit(batch)][1]
        )
        sandbox.submit("stepped", 0).result()
        plain = len(batches)
        assert not any(batch.entries for batch in batches)
        batches.clear()
        sandbox.submit("stepped", 7).result()

        assert len(batches) == plain + 7


# ---- sleeps


def test_a_day_s_sleep_holds_no_slot_and_ends_when_the_day_has_passed(order, sandbox):
    job = sandbox.submit("nap")
    sandbox.run()

    assert (job.status, job.record.waits.name) == (Status.WAITING, "cool off")
    assert job.record.execution.worker_id is None
    assert sandbox.submit("print", 4).result() == 8
    sandbox.advance(DAY - 1)
    assert job.status is Status.WAITING
    sandbox.advance(1)

    assert job.result() == 2
    assert order.done == ["first", "second"]
    record = job.record
    assert (record.failures, record.losses, record.snoozes, record.history) == (0, 0, 0, ())


def test_a_sleep_is_over_also_for_the_run_after_the_one_that_it_woke(order, sandbox):
    job = sandbox.submit("nap")
    sandbox.run()
    sandbox.crash_next()
    sandbox.advance(DAY + 5)

    assert job.result() == 3
    assert order.done == ["first", "second"]


def test_a_step_that_is_inserted_while_a_job_is_parked_runs_and_kept_ones_do_not(order, sandbox):
    job = sandbox.submit("nap")
    sandbox.run()
    order.before_second.append("new")
    sandbox.advance(DAY)

    assert job.result() == 2
    assert order.done == ["first", "new", "second"]


def test_a_coroutine_may_sleep_in_a_group_of_tasks(sandbox):
    job = sandbox.submit("nap-async")
    sandbox.run()
    assert job.status is Status.WAITING
    sandbox.advance(3600)

    assert job.result() == 2


def test_a_sleeping_job_can_be_cancelled(sandbox):
    job = sandbox.submit("nap")
    sandbox.run()
    job.cancel()
    sandbox.advance(2 * DAY)

    assert job.status is Status.CANCELLED


def test_many_sleeping_jobs_hold_no_slot_and_all_end(order, sandbox):
    jobs = [sandbox.submit("nap") for _ in range(100)]
    sandbox.run()
    assert {job.status for job in jobs} == {Status.WAITING}
    assert sandbox.submit("print", 1).result() == 2
    sandbox.advance(DAY)

    assert [job.result() for job in jobs] == [2] * 100


# ---- signals


def test_a_signal_wakes_the_job_that_waits_for_it_and_no_other_name_does(sandbox):
    job = sandbox.submit("approval")
    sandbox.run()
    job.signal("something else", 1)
    sandbox.run()
    assert job.status is Status.WAITING
    job.signal("approved", {"by": "me"})

    assert job.result() == {"by": "me"}
    assert job.record.attempt == 2


def test_a_signal_that_comes_early_is_kept_and_one_id_counts_once(sandbox):
    job = sandbox.submit("votes")
    for value in ("first", "again"):
        job.signal("vote", value, id="1")
    sandbox.run()
    assert job.status is Status.WAITING
    job.signal("vote", "second", id="2")

    assert job.result() == ["first", "second"]


def test_a_wait_that_is_over_stays_so_though_the_signal_comes_later(sandbox):
    job = sandbox.submit("approval", 60)
    sandbox.run()
    sandbox.advance(60)

    assert job.status is Status.FAILED
    assert SignalTimeout.__name__ in job.record.error.message
    with pytest.raises(JobRefused, match="can't take the signal 'approved' any more"):
        job.signal("approved")


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("", 1, "name"),
        ("x" * 201, 1, "name"),
        ("a", bytes(200_000), "value"),
        ("a", object(), "value"),
    ],
)
def test_a_signal_that_can_t_be_kept_is_refused(sandbox, name, value, field):
    job = sandbox.submit("approval")
    with pytest.raises(JobRefused) as refused:
        job.signal(name, value)
    assert refused.value.field == field
    assert job.id in str(refused.value)
    assert job.record.signals == 0


def test_a_signal_to_a_job_that_is_not_there_says_so_once(sandbox):
    with pytest.raises(JobNotFound, match=r"^job nobody: not found; it never existed"):
        sandbox.signal("nobody", "approved")
    with sandbox.client() as client:
        for order in (lambda job: job.signal("approved"), lambda job: job.cancel()):
            with pytest.raises(JobNotFound):
                order(client.job_handle("nobody"))


# ---- children


def test_gather_waits_for_its_jobs_and_returns_their_results_in_order(sandbox):
    job = sandbox.submit("book", [3, 1, 2])
    sandbox.settle()

    assert job.result() == [6, 2, 4, 200]
    assert [it.type for it in sandbox_jobs(sandbox)].count("print") == 4
    assert job.record.failures == job.record.losses == 0


def test_a_repeated_run_finds_the_jobs_that_it_waited_for(sandbox):
    job = sandbox.submit("book", [1, 2])
    sandbox.run()
    sandbox.crash_next(2)
    sandbox.settle()

    assert job.result() == [2, 4, 200]
    assert [it.type for it in sandbox_jobs(sandbox)].count("print") == 3


def test_a_child_that_fails_raises_in_its_parent(sandbox):
    job = sandbox.submit("book", [1, -1])
    sandbox.settle()

    message = job.record.error.message
    assert ChildFailed.__name__ in message
    assert "ValueError: no such page" in message


def sandbox_jobs(sandbox):
    from shunter.store.port import JobQuery
    from shunter.testing.finish import finish

    return finish(sandbox.store.find(JobQuery(limit=100)))


# ---- streams


def test_a_parked_job_goes_on_with_its_stream(sandbox):
    job = sandbox.submit("nap")
    assert list(job.stream()) == ["a"]
    sandbox.advance(DAY)

    assert list(job.stream()) == ["a", "b"]


def test_the_stream_of_a_repeated_run_begins_again_and_says_so():
    def story(ctx: Context) -> None:
        for number in range(3):
            ctx.emit([ctx.attempt, number])
            if ctx.attempt == 1 and number == 1:
                raise ValueError

    app = App()
    app.job(story, retry=RETRY)
    with Sandbox(app) as sandbox:
        job, restarts = sandbox.submit("story"), list[int]()
        assert list(job.stream()) == [[1, 0], [1, 1]]
        sandbox.settle()

        with pytest.raises(StreamRestarted, match="from number 0 on"):
            list(job.stream())
        chunks = list(job.stream(on_restart=restarts.append))
        assert (chunks[2:], restarts) == ([[2, 0], [2, 1], [2, 2]], [0])


def test_a_stream_is_bounded_and_says_what_is_not_in_it():
    def flood(ctx: Context) -> int:
        emitted = 0
        with contextlib.suppress(StepRefused):
            while True:
                ctx.emit(bytes(100_000))
                emitted += 1
        with pytest.raises(StepRefused, match="16,777,216 bytes"):
            ctx.emit(1)
        return emitted

    with Sandbox(one_off(flood)) as sandbox:
        job = sandbox.submit("flood")
        assert job.result() == 167
        assert len(list(job.stream())) == 167


# ---- reruns and codecs


def test_with_a_codec_nothing_that_is_kept_can_be_read_in_the_store():
    order = Order(AesCodec({"k1": bytes(range(32))}))
    with Sandbox(order.app) as sandbox:
        nap, vote = sandbox.submit("nap"), sandbox.submit("votes")
        vote.signal("vote", "secret vote", id="1")
        book = sandbox.submit("book", [7])
        pay = sandbox.submit("pay", 4)
        sandbox.advance(DAY)
        vote.signal("vote", "other")
        sandbox.run()

        assert vote.result() == ["secret vote", "other"]
        assert book.result() == [14, 200]
        assert pay.result() == [{"paid": 4}, 2]
        assert list(nap.stream()) == ["a", "b"]
        raw = repr(sandbox.store._journals._entries)
        assert "secret vote" not in raw
        assert "paid" not in raw
