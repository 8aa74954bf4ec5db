"""Handlers that do nothing, so that only the way there and back is measured."""

from shunter import App

app = App()


@app.job
def echo(number: int) -> int:
    return number
