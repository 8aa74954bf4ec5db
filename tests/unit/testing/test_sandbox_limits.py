"""Limits, rates and turns in a sandbox."""

from __future__ import annotations

import pytest

from shunter import App, Client, Limit, Rate
from shunter.errors import LimitsRefused
from shunter.testing import Sandbox


def test_a_rate_is_kept_in_each_of_ten_minutes() -> None:
    app, starts = App(), []

    @app.job(rate=Rate(60, per=60, by="tenant"))
    def call() -> None:
        starts.append(sandbox.clock())

    with Sandbox(app) as sandbox:
        begin = sandbox.clock()
        sandbox.with_options(keys={"tenant": "a"}).submit_many(call, [()] * 605)
        for minute in range(1, 11):
            sandbox.advance(60.0)
            assert 59 <= sum(at >= begin + 60 * (minute - 1) for at in starts) <= 61, minute
            starts.clear()
            sandbox.run()


def test_tenants_take_turns() -> None:
    app, served = App(), []

    @app.job(fair="tenant", limit=Limit(5, by="tenant"))
    def work(tenant: str) -> None:
        served.append(tenant)

    with Sandbox(app) as sandbox:
        first = sandbox.with_options(keys={"tenant": "a"}).submit(work, "a")
        sandbox.with_options(keys={"tenant": "a"}).submit_many(work, ["a"] * 5)
        late = sandbox.with_options(keys={"tenant": "b"}).submit(work, "b")
        sandbox.run()
        assert first.record.keys == {"tenant": "a"}
        assert late.record.lane == "tenant=b"

    assert served == ["a", "b", "a", "a", "a", "a", "a"]


def test_limits_are_shown_and_changed_by_a_client_in_a_handler() -> None:
    app = App()

    @app.job(limit=Limit(1, by="tenant"))
    def limited() -> None: ...

    @app.job
    def ask() -> list[int | None]:
        with Client("tcp://nowhere:1") as client:
            [before] = client.limits.list()
            after = client.limits.set(limited, limit=7)
            return [before.limits.per_key, after.limits.per_key]

    with Sandbox(app) as sandbox:
        assert sandbox.submit(ask).result() == [1, 7]
        limits = sandbox.dispatcher.state.limits.of("limited")
        assert sandbox.limits.reset("limited").limits.per_key == 1
        with pytest.raises(LimitsRefused, match=r"limit\.at_once"):
            sandbox.limits.set(limited, limit=-1)
        with pytest.raises(LimitsRefused, match="change"):
            sandbox.limits.set(limited, limit="many")  # type: ignore[arg-type]

    assert limits is not None
    assert limits.per_key == 7
