"""Two apps that note their final failures: jobs alone in their process, and sharing it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from shunter.app import App, Context
from shunter.errors import JobFailed
from shunter.model.retry import Retry

alone, shared = App(), App()


def declare(app: App, concurrency: int) -> None:
    @app.on_final_failure
    def note(ctx: Context, error: BaseException) -> None:
        with Path(os.environ["HOOK_WITNESS"]).open("a") as file:
            kind = error.kind if isinstance(error, JobFailed) else type(error).__name__
            seen = f"{ctx.job_type} {ctx.job_id} {ctx.attempt} {ctx.run_id}"
            file.write(f"{seen} {kind} {ctx.cancelled()}\n")
        if isinstance(error, JobFailed):
            ctx.progress(1.0)
        print("noted", ctx.job_id)
        if ctx.job_type in ("hang_twice", "hang_later"):
            time.sleep(60)
        if ctx.job_type in ("raise_here", "raise_later"):
            raise OSError("no mail today")

    @app.on_final_failure
    async def note_later() -> None:
        await asyncio.sleep(0)
        print("and later")

    @app.job(timeout=0.1, concurrency=concurrency)
    def hang() -> None:
        while True:
            try:
                time.sleep(60)
            except BaseException:
                continue

    @app.job(timeout=0.1, concurrency=concurrency)
    def hang_twice() -> None:
        time.sleep(60)

    @app.job(timeout=0.1, concurrency=concurrency)
    async def patient() -> None:
        await asyncio.sleep(60)

    @app.job(timeout=0.1, retry=Retry(limit=1, on_timeout=True), concurrency=concurrency)
    async def patient_again() -> None:
        await asyncio.sleep(60)

    @app.job(concurrency=concurrency)
    async def wait() -> None:
        await asyncio.sleep(60)

    @app.job(concurrency=concurrency)
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    @app.job(concurrency=concurrency)
    def fail() -> None:
        raise ValueError("no")

    @app.job(concurrency=concurrency)
    async def fail_later() -> None:
        raise ValueError("no")

    for name in ("hang_later", "raise_later"):
        app.job(name=name, concurrency=concurrency)(wait.function)
    app.job(name="raise_here", concurrency=concurrency)(fail.function)

    @app.job
    def add(x: int, y: int) -> int:
        return x + y


declare(alone, 1)
declare(shared, 4)
