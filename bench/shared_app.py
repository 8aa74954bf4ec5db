"""Handlers of which many are under way in each process.

An app of its own: one such handler changes how a worker does all of its jobs.
"""

from shunter import App, Context

app = App()


@app.job(concurrency=200)
async def shared(number: int) -> int:
    """Many of these at once in each process."""
    return number


@app.job(concurrency=200)
async def shared_stepped(number: int, ctx: Context) -> int:
    result: int = await ctx.step("only", shared.function, number)
    return result
