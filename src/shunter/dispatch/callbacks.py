"""Which ended jobs this dispatcher calls back for, and what follows from the answers. Pure.

A job that has ended says in its record that its callback is due. Every dispatcher looks for such
jobs and takes some: by a write that moves `due` behind the end of the call, so that of two who
want the same one the store refuses one. No more calls are under way than may be at once; what is
found beyond that waits here as a candidate, a hint that may be outdated by the time it is used.
The calls themselves are made by a gateway. Rules: docs/spec/http.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from shunter.dispatch.arrivals import CallbackLink, CalledBack
from shunter.dispatch.plan import Delivery, Plan
from shunter.dispatch.rules import CallbackRules
from shunter.errors import JobError
from shunter.model import callback
from shunter.model.job import Job

MOST_CANDIDATES = 256
"""How many due callbacks are kept in mind; more are read once fewer calls are left than can be
made at once."""


class CallbackDesk:
    """One dispatcher's callbacks: candidates, calls under way, and answers yet to be written."""

    def __init__(
        self, rules: CallbackRules, *, spread: Callable[[], float], counters: Counter[str]
    ) -> None:
        self.link: CallbackLink | None = None
        self._rules = rules
        self._spread = spread
        self._counters = counters
        self._candidates: dict[str, Job] = {}
        self._calling: dict[str, Job] = {}
        self._answered: dict[str, Job] = {}

    @property
    def appetite(self) -> int:
        """Return how many due callbacks to look for in the store."""
        if self.link is None or len(self._candidates) >= self._rules.at_once:
            return 0
        return MOST_CANDIDATES

    @property
    def has_work(self) -> bool:
        return self._room > 0 and bool(self._candidates)

    @property
    def _room(self) -> int:
        return 0 if self.link is None else self._rules.at_once - len(self._calling)

    def offer(self, jobs: Iterable[Job], *, now: float) -> None:
        """Take note of ended jobs whose callback may be due."""
        for job in jobs:
            if len(self._candidates) >= MOST_CANDIDATES or self.link is None:
                return
            if callback.is_due(job, now=now) and not self._is_busy(job.id):
                self._candidates[job.id] = replace(job, payload=None, result=None)

    def expect(self, job: Job) -> None:
        """Take note of a call that is made before it is due: it is ours to make."""
        self._calling[job.id] = replace(job, payload=None, result=None)

    def plan(self, called: Iterable[CalledBack], stored: Mapping[str, Job], plan: Plan) -> None:
        """Decide on the calls that were made, then take as many as can be made now."""
        for arrival in called:
            self._plan_answer(arrival, stored, plan)
        for job in self._chosen():
            self._plan_call(job, plan)

    def settle(self, delivery: Delivery, was_written: bool) -> CalledBack | None:
        """Go on after the commit; return an answer that must be decided again."""
        job, cause = delivery.job, delivery.cause
        assert job.callback is not None
        if not was_written:
            self._counters["writes_refused"] += 1
            return None if cause is None else replace(cause, is_disputed=True)
        self._answered.pop(job.id, None)
        if job.callback.delivered:
            self._counters["callbacks_delivered"] += 1
        elif job.callback.due is None:
            self._counters["callbacks_given_up"] += 1
        elif cause is not None:
            self._counters["callbacks_failed"] += 1
        elif self.link is not None:
            self._calling[job.id] = job
            self.link.call(job)
        return None

    # ---- the steps of a plan

    def _plan_answer(self, arrival: CalledBack, stored: Mapping[str, Job], plan: Plan) -> None:
        """Write down how a call went.

        What we wrote when we took the call still stands, unless the store has refused to believe
        it once: then the store's word counts.
        """
        if (mine := self._calling.pop(arrival.job_id, None)) is not None:
            self._answered[arrival.job_id] = mine
        ours = self._answered.get(arrival.job_id)
        job = stored.get(arrival.job_id) if arrival.is_disputed else ours
        if job is None:
            self._answered.pop(arrival.job_id, None)
            return
        try:
            after = callback.called(
                job,
                arrival.tries,
                arrival.error,
                now=plan.now,
                spread=self._spread(),
                max_tries=self._rules.max_tries,
                waits=self._rules.waits,
            )
        except JobError:  # another dispatcher has taken it over since, or is through with it
            self._answered.pop(arrival.job_id, None)
            return
        plan.deliveries.append(Delivery(after, arrival))

    def _chosen(self) -> list[Job]:
        """Take candidates for which there is room, from a place by chance.

        Other dispatchers have read the same list; so they are rarely after the same callbacks.
        """
        room, waiting = self._room, list(self._candidates.values())
        start = int(self._spread() * max(1, len(waiting) - room + 1)) if room > 0 else 0
        chosen = waiting[start : start + max(0, room)]
        for job in chosen:
            del self._candidates[job.id]
        return [job for job in chosen if not self._is_busy(job.id)]

    def _plan_call(self, job: Job, plan: Plan) -> None:
        assert job.callback is not None
        if job.callback.tries >= self._rules.max_tries:
            plan.deliveries.append(Delivery(callback.given_up(job)))
        elif callback.is_due(job, now=plan.now):
            mine = callback.calling(job, now=plan.now, seconds=self._rules.timeout)
            plan.deliveries.append(Delivery(mine))

    def _is_busy(self, job_id: str) -> bool:
        return job_id in self._calling or job_id in self._answered
