"""Handlers that do nothing, so that only the way there and back is measured."""

from shunter import App, Limit, Rate

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
