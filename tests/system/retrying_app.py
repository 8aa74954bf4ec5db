"""A handler that declares its retries, and fails until they are used up or enough."""

from __future__ import annotations

from shunter import App, Context, Retry

app = App()


@app.job(retry=Retry(limit=3, delay=0.05))
def flaky(ctx: Context, succeeds_at: int) -> int:
    if ctx.attempt < succeeds_at:
        raise OSError(f"attempt {ctx.attempt}")
    return ctx.attempt


@app.job(retry=Retry(limit=3, delay=0.05, never=(OSError,)))
def hopeless() -> None:
    raise OSError("no use")
