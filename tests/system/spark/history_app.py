"""Jobs of three types for a history: some take no time, some take some, some fail."""

from __future__ import annotations

import time

from shunter import App

app = App()


@app.job
def quick(number: int) -> int:
    return number


@app.job
def slow(seconds: float) -> None:
    time.sleep(seconds)


@app.job
def broken(number: int) -> None:
    if number % 3:
        raise ValueError("no such <order>\nand more about it")
    raise KeyError("total")
