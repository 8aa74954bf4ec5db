"""A handler that waits, many at a time in one process."""

import asyncio

from shunter import App

app = App()


@app.job(concurrency=500)
async def nap(number: int) -> int:
    await asyncio.sleep(0.1)
    return number
