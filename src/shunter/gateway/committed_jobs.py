"""Jobs that a gateway submits by itself, and whose commit it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shunter.dispatch.arrivals import Submitter
from shunter.dispatch.dispatcher import Dispatcher
from shunter.errors import StoreError
from shunter.model.submission import Receipt, Submission

COMMIT_SECONDS = 30.0
LOOK_SECONDS = 0.5
"""How long a commit is waited for, and how often to look meanwhile whether the store fails."""


async def submit_and_wait(
    dispatcher: Dispatcher, submissions: Sequence[Submission], namespace: str
) -> Sequence[Receipt]:
    """Submit jobs, and return the receipts after their commit, or raise a StoreError."""
    answered: asyncio.Future[list[Receipt]] = asyncio.get_running_loop().create_future()

    def answer(receipts: list[Receipt]) -> None:
        if not answered.done():
            answered.set_result(receipts)

    submitter = Submitter(namespace=namespace)
    dispatcher.submit(submissions, answer, submitter=submitter)
    for _ in range(round(COMMIT_SECONDS / LOOK_SECONDS)):
        await asyncio.wait([answered], timeout=LOOK_SECONDS)
        if answered.done():
            return answered.result()
        if fault := dispatcher.store_health.fault():
            raise StoreError(f"{fault}; the jobs may or may not be stored, ask again later")
    raise StoreError(
        f"the store has not confirmed it within {COMMIT_SECONDS:g} s; the jobs may or may not be "
        "stored, ask again later"
    )
