"""Handlers with setups, arounds and hooks that tell a witness, a file, what happens when.

A setup fails as long as there is a file beside the witness that is called `shut`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

from shunter import App, Context, Fail, JobFailed, Retry, Snooze

WITNESS = Path(os.environ["SHUNTER_WITNESS"])
app = App()


def tell(*words: object) -> None:
    with WITNESS.open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


class Database:
    pid = os.getpid()


class Session:
    pid = os.getpid()


@app.setup
def database() -> Iterator[Database]:
    tell("tries", os.getpid())
    if (WITNESS.parent / "shut").exists():
        raise ConnectionError("the database is shut")
    yield Database()
    tell("closes", os.getpid())


@app.setup
async def session(db: Database) -> AsyncIterator[Session]:
    yield Session()
    tell("leaves", os.getpid())


@app.around
def witnessed(ctx: Context, db: Database) -> Generator[None, Any, None]:
    try:
        result = yield
    except Exception as error:
        tell("around", ctx.job_id, type(error).__name__)
        raise
    tell("around", ctx.job_id, result)


@app.on_final_failure
def given_up(ctx: Context, error: BaseException) -> None:
    kind = error.kind if isinstance(error, JobFailed) else type(error).__name__
    tell("given-up", ctx.job_id, ctx.attempt, kind)


@app.job
def pids(db: Database) -> list[int]:
    return [db.pid, os.getpid()]


@app.job
async def pids_later(number: int, session: Session) -> list[int]:
    return [session.pid, os.getpid()]


@app.job(retry=Retry(limit=2, delay=0.05, on=(OSError,), never=(PermissionError,)))
def raises(what: str, ctx: Context) -> int:
    match what:
        case "fail":
            raise Fail("no hope")
        case "snooze" if ctx.attempt < 3:
            raise Snooze(0.05)
        case "snooze":
            return ctx.attempt
    raise {"disk": OSError, "rights": PermissionError, "value": ValueError}[what](what)


@app.job(effects="at_most_once")
def pay(how: str, ctx: Context) -> str:
    tell("pays", ctx.job_id)
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    while how == "hang":
        time.sleep(0.01)
    return how


if (WITNESS.parent / "shared").exists():
    app.job(name="pids_together", concurrency=4)(pids.function)
    app.job(name="pids_later_together", concurrency=4)(pids_later.function)
    app.job(name="raises_together", concurrency=4, retry=raises.retry)(raises.function)
    app.job(name="pay_together", concurrency=4, effects="at_most_once")(pay.function)
