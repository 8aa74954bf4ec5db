"""What is done to whole runs of workflows: looked at, cancelled, done again, after a commit each.

The routes for programs and the page for people give the same orders, as with `job_orders.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus

from shunter.dispatch.arrivals import Receipts, Submitter
from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.run_pages import read_run
from shunter.errors import JobNotFound, JobRefused
from shunter.gateway.http.job_orders import JobOrders
from shunter.model.document import sealed_data_at
from shunter.model.job import Job
from shunter.model.resubmission import resubmission
from shunter.model.run_view import RunView
from shunter.model.scope import JobScope
from shunter.model.submission import Receipt, Submission
from shunter.net.web.refusals import HttpRefusal, unavailable

CANCELLED_AT_ONCE = 500
READ_AT_ONCE = 100


class RunOrders:
    """Takes orders about runs to one dispatcher."""

    def __init__(
        self, dispatcher: Dispatcher, orders: JobOrders, *, new_id: Callable[[], str]
    ) -> None:
        self._dispatcher, self._orders, self._new_id = dispatcher, orders, new_id

    async def run(self, run_id: str, scope: JobScope) -> RunView:
        """Return a whole run, or refuse if it is not there for this caller."""
        view = await read_run(self._dispatcher.store, run_id, scope)
        if not view.jobs:
            raise no_run(run_id)
        return view

    async def cancel(
        self, view: RunView, scope: JobScope, *, first: str | None = None
    ) -> list[Receipt]:
        """Stop all jobs of a run that have not ended, or those from one on."""
        still_open = set(view.open_jobs)
        ids = [name for name in _chosen(view, first) if name in still_open]
        receipts: list[Receipt] = []
        for start in range(0, len(ids), CANCELLED_AT_ONCE):
            some = ids[start : start + CANCELLED_AT_ONCE]
            receipts += await self._orders.answered(
                partial(self._ask_to_cancel, some, scope),
                f"run {view.id} may or may not be cancelled; look at it, or ask again",
            )
        return receipts

    async def rerun(
        self, view: RunView, scope: JobScope, *, first: str | None = None
    ) -> list[Receipt]:
        """Do an ended run again, or all from one job on, as new jobs of the same run."""
        in_full = await self._in_full(_chosen(view, first))
        try:
            submissions = view.rerun(first, lambda job: self._resubmitted(in_full[job.id]))
        except JobRefused as error:
            raise HttpRefusal(HTTPStatus.CONFLICT, str(error), field="first") from None
        return await self.submit(submissions, scope)

    async def submit(self, submissions: Sequence[Submission], scope: JobScope) -> list[Receipt]:
        """Have a graph stored as a whole, or refuse it."""
        if self._dispatcher.is_full:
            raise unavailable("too many jobs are waiting to be stored; send it again in a second")
        submitter = Submitter(namespace=scope.namespace, sees_all=scope.sees_all)
        run_id = submissions[0].run or ""
        receipts = await self._orders.answered(
            lambda answer: self._dispatcher.submit(
                submissions, answer, submitter=submitter, is_whole=True
            ),
            f"run {run_id} may or may not be stored; look at it, or send it again under its ids",
        )
        for receipt in sorted(receipts, key=lambda it: it.field == "graph"):
            if receipt.reason:
                is_taken = receipt.field in ("id", "rerun_of")
                status = HTTPStatus.CONFLICT if is_taken else HTTPStatus.UNPROCESSABLE_ENTITY
                raise HttpRefusal(status, receipt.reason, field=receipt.field)
        return receipts

    def _ask_to_cancel(self, ids: Sequence[str], scope: JobScope, answer: Receipts) -> None:
        self._dispatcher.cancel(ids, answer, scope)

    async def _in_full(self, ids: Sequence[str]) -> dict[str, Job]:
        found: dict[str, Job] = {}
        for start in range(0, len(ids), READ_AT_ONCE):
            some = ids[start : start + READ_AT_ONCE]
            for job in await self._dispatcher.store.get(some, payload=True):
                if job is not None:
                    found[job.id] = job
        return found

    def _resubmitted(self, job: Job) -> Submission:
        if job.payload is not None and sealed_data_at(job.payload) is not None:
            raise JobRefused(
                job.id,
                "payload",
                "it is encrypted for that job alone; rerun the run with Client(codec=...)",
            )
        return resubmission(job, new_id=self._new_id())


def no_run(run_id: str) -> HttpRefusal:
    """Return the refusal where there is no such run, or none for this caller."""
    message = f"there is no run {run_id[:128]}, or all its jobs are purged"
    return HttpRefusal(HTTPStatus.NOT_FOUND, message, field="id")


def _chosen(view: RunView, first: str | None) -> list[str]:
    try:
        return view.chosen(first)
    except JobNotFound:
        message = f"run {view.id} has no job {first}; name one of its jobs"
        raise HttpRefusal(HTTPStatus.NOT_FOUND, message, field="first") from None
