"""A function as a type of job: what is filled in, and as what its results are read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from shunter import PROVIDED, App, Context, JobFailed
from shunter.errors import AppError
from shunter.testing import Sandbox


@dataclass
class Order:
    item: str
    at: datetime


class Unknown:
    """Nothing that can be sent."""


app = App()


@app.job
def order(item: str) -> Order:
    return Order(item, datetime(2026, 11, 18, 8))


@app.job
async def pair(n: int) -> tuple[int, int]:
    return n, n


@app.job
def wrong() -> int:
    return "text"  # type: ignore[return-value]


@app.job
def vague() -> Unknown:
    return {"a": [1]}  # type: ignore[return-value]


@app.job
def anything() -> Any:
    return {"a": [1]}


@app.job
def square(n: int, db: sqlite3.Connection = PROVIDED, *, ctx: Context = PROVIDED) -> list[int]:
    return [db.execute("SELECT ? * ?", (n, n)).fetchone()[0], ctx.attempt]


@app.setup
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(app) as sandbox:
        yield sandbox


def test_a_result_is_what_the_function_is_annotated_to_return(sandbox: Sandbox) -> None:
    assert sandbox.submit(order, "tea").result() == Order("tea", datetime(2026, 11, 18, 8))
    assert sandbox.submit(pair, 3).result() == (3, 3)


def test_a_result_of_a_job_that_was_submitted_by_name_is_plain(sandbox: Sandbox) -> None:
    assert sandbox.submit("order", "tea").result() == {"item": "tea", "at": "2026-11-18T08:00:00"}
    assert sandbox.submit("pair", 3).result() == [3, 3]


def test_a_result_that_is_not_as_annotated_says_what_to_do(sandbox: Sandbox) -> None:
    job = sandbox.submit(wrong)

    with pytest.raises(AppError, match=r"result of 'wrong' is not .* Expected `int`.*; correct"):
        job.result()
    assert sandbox.submit("wrong").result() == "text"


def test_results_are_plain_where_the_annotation_does_not_help(sandbox: Sandbox) -> None:
    assert sandbox.submit(vague).result() == {"a": [1]}
    assert sandbox.submit(anything).result() == {"a": [1]}


def test_marked_parameters_are_filled_in_whichever_was_declared_first(sandbox: Sandbox) -> None:
    assert sandbox.submit(square, 7).result() == [49, 1]


def test_a_marked_parameter_that_no_setup_yields_is_refused() -> None:
    lonely = App()

    @lonely.job
    def count(db: sqlite3.Connection = PROVIDED) -> int:
        return 1

    with Sandbox(lonely) as sandbox:
        job = sandbox.submit(count)

        with pytest.raises(JobFailed, match="it wants Connection, and no setup is open"):
            job.result()


def test_a_marked_parameter_that_was_not_passed_says_so() -> None:
    with pytest.raises(AppError, match=r"'execute' is wanted .* pass it where you call"):
        square(3)
