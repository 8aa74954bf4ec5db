"""What editors know about jobs: read by mypy and pyright, and never run.

A line with `# wrong` must be reported by both. What `reveal_type` is given must be of the type
that its comment says.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any, reveal_type

from shunter import (
    PROVIDED,
    App,
    AsyncClient,
    AsyncJob,
    Client,
    Context,
    JobFunction,
    Limit,
    Retry,
    SubmittedJob,
)
from shunter.testing import Sandbox

app = App()


@dataclass
class Bill:
    total: float


@app.job
def add(a: int, b: int) -> int:
    return a + b


@app.job(retries=2, limit=Limit(5))
def bill(amount: int, *, discount: float = 0.0) -> Bill:
    return Bill(amount * (1 - discount))


@app.job
async def fetch(ctx: Context, url: str) -> bytes:
    return url.encode()


@app.job(timeout=5)
def report(ctx: Context) -> str:
    return ctx.job_id


@app.job
def square(n: int, db: sqlite3.Connection = PROVIDED, *, ctx: Context = PROVIDED) -> float:
    return float(n * n)


@app.job
def untyped(a, b):  # type: ignore[no-untyped-def]
    return a + b


@app.job
def loose(a: Any, b: int) -> int:
    return b


@app.job
def wants_all(n: int, db: sqlite3.Connection) -> int:
    return n


def sync_client(client: Client) -> None:
    reveal_type(client.submit(add, 1, 2).result())  # int
    reveal_type(client.submit(add, a=1, b=2).result())  # int
    reveal_type(client.submit(bill, 4, discount=0.5).result(timeout=1))  # Bill
    reveal_type(client.submit(fetch, "a").result())  # bytes
    reveal_type(client.submit(report).result())  # str
    reveal_type(client.submit(square, 3).result())  # float
    reveal_type(client.submit("add", 1, 2).result())  # Any
    reveal_type(client.with_options(priority=3).submit(add, 1, 2).result())  # int
    reveal_type(client.submit_many(add, [(1, 2)])[0].result())  # int
    jobs: list[SubmittedJob[int]] = client.submit_many(add, [(1, 2)])
    for job in client.as_completed(jobs):
        reveal_type(job.result())  # int
    client.submit(untyped, 1, b=2)
    client.submit(loose, object(), b=2)
    client.submit(add, 1, "2")  # wrong: text for a number
    client.submit(add, 1)  # wrong: b is missing
    client.submit(add, 1, 2, 3)  # wrong: too many
    client.submit(add, 1, c=2)  # wrong: no such parameter
    client.submit(bill, 4, 0.5)  # wrong: by name only
    client.submit(fetch, 3)  # wrong: a number for text
    client.submit(report, 3)  # wrong: Shunter passes the context
    client.submit(wants_all, 3)  # wrong: db has no PROVIDED as its default
    client.submit(3)  # wrong: no job
    client.with_options(priorty=3)  # wrong: misspelt
    client.with_options(retry=3)  # wrong: no Retry
    client.with_options(retry=Retry(limit=3), keys={"tenant": "acme"}, callback="http://a/")
    number: str = client.submit(add, 1, 2).result()  # wrong: an int
    print(number)


async def async_client(client: AsyncClient) -> None:
    reveal_type(await (await client.submit(add, 1, 2)).result())  # int
    reveal_type(await (await client.submit(fetch, "a")).result())  # bytes
    job: AsyncJob[Bill] = await client.with_options(delay=1).submit(bill, 4)
    reveal_type(await job.result())  # Bill
    for each in await client.submit_many(add, [(1, 2)]):
        reveal_type(await each.result())  # int
    await client.submit(add, "1", 2)  # wrong: text for a number
    await client.submit(fetch)  # wrong: url is missing


def sandboxed() -> None:
    with Sandbox(app) as sandbox:
        reveal_type(sandbox.submit(add, 1, 2).result())  # int
        reveal_type(sandbox.with_options(delay=3).submit(fetch, "a").result())  # bytes
        sandbox.submit(add, 1)  # wrong: b is missing


async def called_here(ctx: Context) -> None:
    reveal_type(add(1, 2))  # int
    reveal_type(await fetch(ctx, "a"))  # bytes
    add("1", 2)  # wrong: text for a number
    await fetch("a")  # wrong: no context


def passed_on(
    client: Client, job: JobFunction[[int], str], either: str | JobFunction[..., Any]
) -> None:
    reveal_type(client.submit(job, 3).result())  # str
    client.submit(job, "3")  # wrong: text for a number
    client.submit(either, 3)
