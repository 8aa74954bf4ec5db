"""How handlers are declared and called."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from shunter.app import App, Context, JobFunction, payload_of
from shunter.errors import AppError
from shunter.model.job_limits import JobLimits, Limit, Rate
from shunter.model.queue_order import PRIORITY_LIMIT
from shunter.model.retry import Retry
from shunter.model.timing import Cron, Every
from shunter.model.worker import Handler


class Quiet:
    """A context without a worker."""

    job_id, run_id, attempt = "j-1", "r-1", 2

    def progress(self, done: float, total: float | None = None) -> None: ...

    def cancelled(self) -> bool:
        return False


def test_a_bare_decorator_names_the_job_for_its_function() -> None:
    app = App()

    @app.job
    def resize(width: int) -> int:
        """Make it fit."""
        return width

    assert resize.name == "resize"
    assert resize.__doc__ == "Make it fit."
    assert app.handlers() == (Handler("resize"),)


def test_the_decorators_options_become_the_handlers() -> None:
    app = App()

    @app.job(name="images.resize", retries=3, timeout=2.5, priority=7)
    def resize() -> None: ...

    assert resize.handler == Handler("images.resize", priority=7, timeout=2.5, retry=Retry(limit=3))


def test_limits_are_declared_with_the_handler() -> None:
    app = App()

    @app.job(limit=Limit(5, by="tenant", total=40), rate=Rate(60, per=60), fair="tenant")
    def convert() -> None: ...

    assert convert.handler.limits == JobLimits(
        limit=Limit(5, by="tenant", total=40), rate=Rate(60, per=60), fair="tenant"
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"limit": Limit(0)}, "limit.at_once: found 0; send 1 to"),
        ({"limit": 5}, "limit: found 5; pass such as Limit(5)"),
        ({"rate": 5}, "rate: found 5; pass such as Rate("),
        ({"fair": 5}, "fair: found 5; pass such as"),
        ({"limit": Limit(5, by="tenant"), "fair": "user"}, "let all go by one key"),
    ],
)
def test_limits_that_can_not_be_are_refused_by_handler_and_line(
    options: dict[str, Any], words: str
) -> None:
    def convert() -> None: ...

    with pytest.raises(AppError) as refused:
        App().job(**options)(convert)

    line = convert.__code__.co_firstlineno
    assert f"handler 'convert' ({__file__}:{line}): " in str(refused.value)
    assert words in str(refused.value)


def test_retries_is_the_limit_of_a_retry_policy() -> None:
    app = App()
    policy = Retry(limit=1, delay=9.0)

    @app.job(retries=4, retry=policy)
    def both() -> None: ...

    @app.job(retry=policy)
    def one() -> None: ...

    @app.job
    def none() -> None: ...

    assert both.handler.retry == Retry(limit=4, delay=9.0)
    assert one.handler.retry == policy
    assert none.handler.retry is None


def test_a_declared_function_is_still_the_plain_function() -> None:
    app = App()

    @app.job
    def add(x: int, y: int = 1) -> int:
        return x + y

    assert isinstance(add, JobFunction)
    assert add(1) == 2
    assert add(1, y=2) == 3


def test_a_function_may_do_two_types_of_job() -> None:
    app = App()

    @app.job(name="second")
    @app.job(name="first")
    def work() -> str:
        return "done"

    assert [handler.type for handler in app.handlers()] == ["first", "second"]
    assert app.run("first", payload_of(), Quiet()) == "done"
    assert app.run("second", payload_of(), Quiet()) == "done"


@pytest.mark.parametrize("name", ["", "-x", "a b", "ä", "x" * 129])
def test_a_name_that_cannot_travel_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(AppError, match="1 to 128 letters"):
        App().job(name=name)(lambda: None)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(AppError, match="pass name=…"):
        App().job(lambda: None)


def test_two_handlers_of_one_name_are_refused_with_the_first_ones_place() -> None:
    app = App()

    def work() -> None: ...

    app.job(work)
    with pytest.raises(AppError, match=r"two handlers are named 'work'.*test_app.*work"):
        app.job(work)


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({"retries": -1}, "0 to 1000000"),
        ({"timeout": 0}, "above 0"),
        ({"timeout": float("nan")}, "above 0"),
        ({"priority": PRIORITY_LIMIT + 1}, f"-{PRIORITY_LIMIT} to {PRIORITY_LIMIT}"),
    ],
)
def test_an_option_out_of_range_is_refused_with_what_is_allowed(
    options: dict[str, Any], allowed: str
) -> None:
    with pytest.raises(AppError, match=allowed):
        App().job(name="work", **options)(lambda: None)


def test_a_refused_declaration_leaves_the_name_free() -> None:
    app = App()
    with pytest.raises(AppError):
        app.job(name="work", timeout=-1)(lambda: None)

    app.job(name="work")(lambda: None)

    assert len(app.handlers()) == 1


def test_generators_are_no_handlers() -> None:
    def counting() -> Any:
        yield 1

    with pytest.raises(AppError, match="returns its result once"):
        App().job(counting)


def test_an_unknown_type_is_refused_with_what_there_is() -> None:
    app = App()
    app.job(name="b")(lambda: None)
    app.job(name="a")(lambda: None)

    with pytest.raises(AppError, match="no handler for jobs of type 'c'; this app has: a, b"):
        app.run("c", payload_of(), Quiet())
    with pytest.raises(AppError, match="none at all"):
        App().find("c")


def test_an_async_handler_gives_something_to_await() -> None:
    app = App()

    @app.job
    async def later(x: int) -> int:
        return x + 1

    assert later.is_async
    assert asyncio.run(app.run("later", payload_of(1), Quiet())) == 2


def test_the_context_goes_to_the_parameter_that_is_annotated_with_it() -> None:
    app = App()

    @app.job
    def between(x: int, me: Context, y: int = 5) -> tuple[int, str, int]:
        return x, me.run_id, y

    @app.job
    def by_name(x: int, *, me: Context) -> tuple[int, int]:
        return x, me.attempt

    assert app.run("between", payload_of(1, 2), Quiet()) == (1, "r-1", 2)
    assert app.run("between", payload_of(x=1), Quiet()) == (1, "r-1", 5)
    assert app.run("by_name", payload_of(1), Quiet()) == (1, 2)


def test_nobody_can_send_a_context() -> None:
    app = App()

    @app.job
    def work(ctx: Context) -> None: ...

    with pytest.raises(AppError, match="no parameter 'ctx'"):
        app.run("work", payload_of(ctx=1), Quiet())


def test_a_parameter_that_is_only_called_ctx_is_an_argument_like_others() -> None:
    app = App()

    @app.job
    def work(ctx):  # type: ignore[no-untyped-def]
        return ctx

    assert app.run("work", payload_of("mine"), Quiet()) == "mine"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def work(a: Context, b: Context): ...", "a second Context"),
        ("def work(*a: Context): ...", "a parameter of its own"),
        ("def work(a: 'Nowhere'): ...", "annotations can't be resolved"),
        ("def work(a: dict[int, str] | dict[str, int]): ...", "can't be checked"),
    ],
)
def test_a_signature_that_cannot_be_served_is_refused_when_declared(
    source: str, reason: str
) -> None:
    names: dict[str, Any] = {"Context": Context}
    exec(source, names)

    with pytest.raises(AppError, match=f"handler 'work': .*{reason}"):
        App().job(names["work"])


def test_a_number_for_a_retry_policy_is_refused_with_what_to_write() -> None:
    app = App()

    with pytest.raises(AppError, match=r"handler 'f' .*: retry: found 3; write retries=3"):

        @app.job(retry=3)  # type: ignore[arg-type]
        def f() -> None: ...


def test_a_worker_may_serve_some_types_only() -> None:
    app = App(version="1.2")
    app.job(name="one")(lambda: 1)
    app.job(name="two")(lambda: 2)

    some = app.only(["two"])

    assert [handler.type for handler in some.handlers()] == ["two"]
    assert (some.version, len(app.handlers())) == ("1.2", 2)
    with pytest.raises(AppError, match="this app has: one, two; did you mean 'two'"):
        app.only(["tow"])


@pytest.mark.parametrize("version", ["no spaces", 3, "x" * 200])
def test_a_version_is_a_name(version: str) -> None:
    with pytest.raises(AppError, match="names no version"):
        App(version=version)


@pytest.mark.parametrize("concurrency", [0, -1, True, 1.5, "2", None, 10_001])
def test_a_concurrency_that_can_t_be_is_refused_with_the_handler_and_its_line(
    concurrency: Any,
) -> None:
    app = App()

    async def work() -> None: ...

    line = work.__code__.co_firstlineno
    message = rf"handler 'work' \(.*test_app\.py:{line}\): concurrency: found .* 1 to 10,000"
    with pytest.raises(AppError, match=message):
        app.job(concurrency=concurrency)(work)
    assert app.handlers() == ()


def test_a_plain_function_has_fewer_threads_than_there_may_be_coroutines() -> None:
    app = App()

    @app.job(concurrency=1000)
    def work() -> None: ...

    @app.job
    def other() -> None: ...

    with pytest.raises(AppError, match=r"1 to 1,000 \(threads"):
        app.job(concurrency=1001, name="more")(work)
    assert [handler.concurrency for handler in app.handlers()] == [1000, 1]


def test_a_generator_with_a_concurrency_is_refused_with_its_line() -> None:
    async def parts() -> AsyncIterator[int]:
        yield 1

    line = parts.__code__.co_firstlineno
    with pytest.raises(AppError, match=rf"test_app\.py:{line}\) is a generator"):
        App().job(concurrency=5)(parts)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"retries": "x"}, "retries: found 'x'; pass a whole number"),
        ({"retries": 1.5}, "retries: found 1.5"),
        ({"retries": -1}, "retry.limit: found -1; send 0 to"),
        ({"timeout": "5"}, "timeout: found '5'; pass seconds"),
        ({"timeout": 0}, "timeout: found 0"),
        ({"priority": "high"}, "priority: found 'high'; pass a whole number"),
        ({"priority": 5000}, "priority: found 5000; send -1000"),
        ({"effects": 3}, "effects: found 3"),
        ({"effects": "once"}, "effects: found 'once'; send at_least_once"),
        ({"retry": Retry(delay="x")}, "retry.delay: found 'x'"),  # type: ignore[arg-type]
        ({"retry": Retry(on=(5,))}, r"retry.on: found \(5,\); name classes"),  # type: ignore[arg-type]
        ({"retry": Retry(never=int)}, "retry.never: found .*int.*; name classes"),  # type: ignore[arg-type]
        ({"schedule": "* * * * *"}, "schedule: found '.*'; send Cron"),
        ({"schedule": Cron("61 * * * *")}, "schedule: cron.text: found '61 .*bad minute"),
        ({"schedule": Cron("* * * * *", tz="Berlin")}, "cron.tz: found 'Berlin'; send a zone"),
        ({"schedule": Cron("* * * * *", tz="Europe/Berln")}, "did you mean 'Europe/Berlin'"),
        ({"schedule": Every(0)}, "every.seconds: found 0"),
        ({"schedule": Every(5), "overlap": "x"}, "overlap: found 'x'; send one of"),
        ({"schedule": Every(5), "jitter": -1}, "jitter: found -1"),
        ({"limit": 5}, r"limit: found 5; pass such as Limit\(5\)"),
        ({"limit": Limit(0)}, "limit.at_once: found 0"),
        ({"limit": Limit(5, by="a b")}, "limit.by: found 'a b'; name a key"),
        ({"rate": 60}, r"rate: found 60; pass such as Rate\("),
        ({"rate": Rate(5, per=0)}, "rate.per: found 0"),
        ({"fair": 3}, "fair: found 3"),
        ({"name": "a b"}, "can't name a handler"),
        ({"name": "final-failure/a"}, "can't name a handler: names that begin with"),
        ({"name": 3}, "can't name a handler"),
    ],
)
def test_a_wrong_option_is_refused_with_field_remedy_and_line(
    options: dict[str, Any], said: str
) -> None:
    def work() -> None: ...

    with pytest.raises(AppError, match=said) as caught:
        App().job(**options)(work)

    assert f"test_app.py:{work.__code__.co_firstlineno})" in str(caught.value)
