"""Handlers that do nothing, so that only the way there and back is measured."""

from shunter import App, Context, Limit, Rate

app = App()


@app.job
def echo(number: int) -> int:
    return number


@app.job(limit=Limit(10_000, by="tenant", total=50_000))
def echo_limited(number: int) -> int:
    """Under limits that never bind."""
    return number


@app.job(
    limit=Limit(10_000, by="tenant", total=50_000),
    rate=Rate(1_000_000, per=1, by="tenant"),
    fair="tenant",
)
def echo_limited_in_turns(number: int) -> int:
    """The same with a rate, and turns between tenants."""
    return number


@app.job(concurrency=200)
async def shared(number: int) -> int:
    """Many of these at once in each process."""
    return number


@app.job(concurrency=200)
async def shared_stepped(number: int, ctx: Context) -> int:
    result: int = await ctx.step("only", shared.function, number)
    return result
