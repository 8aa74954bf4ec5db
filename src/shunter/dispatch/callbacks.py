"""Which ended jobs this dispatcher calls back for, and what follows from the answers. Pure.

A job that has ended says in its record that its callback is due. Every dispatcher looks for such
jobs and takes some: by a write that moves `due` behind the end of the call, so that of two who
want the same one the store refuses one. Which are taken, so that no host holds up others, is
decided in `callback_places.py`; what waits there is a hint that may be outdated by the time it is
used. Some schemes of URLs have places of their own. What is due for a host that is slow, and finds
no room here, is put off in the store: else it would be found again and again, before all others.
The calls themselves are made by a gateway. Rules: docs/spec/http.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from shunter.dispatch.arrivals import CallbackAttempted
from shunter.dispatch.callback_places import CallbackPlaces
from shunter.dispatch.effects import DecideAgain, MakeCallback
from shunter.dispatch.plan import Delivery, Plan
from shunter.dispatch.rules import CallbackRules
from shunter.errors import JobError
from shunter.model import callback
from shunter.model.job import Job

READ_AT_ONCE = 256
"""How many due callbacks are read from the store at a time."""
PUT_OFF_SECONDS = 5.0
PUT_OFF_JITTER = 10.0
"""What is put off comes back after this many seconds, and up to this many more by chance."""


class CallbackQueue:
    """One dispatcher's callbacks: candidates, calls under way, and answers yet to be written."""

    def __init__(
        self, rules: CallbackRules, *, jitter: Callable[[], float], counters: Counter[str]
    ) -> None:
        self.is_served = False
        """True if some gateway here makes calls."""
        self._rules = rules
        self._jitter = jitter
        self._counters = counters
        self._shared = CallbackPlaces(rules.at_once, jitter=jitter)
        self._own = {
            scheme: CallbackPlaces(at_once, jitter=jitter)
            for scheme, at_once in rules.at_once_by_scheme.items()
        }
        self._all = (self._shared, *self._own.values())
        self._now = 0.0
        self._put_off: dict[str, Job] = {}
        self._calling: dict[str, Job] = {}
        self._answered: dict[str, Job] = {}

    @property
    def appetite(self) -> int:
        """Return how many due callbacks to look for in the store."""
        is_hungry = any(places.is_hungry for places in self._all)
        return READ_AT_ONCE if self.is_served and is_hungry else 0

    @property
    def has_work(self) -> bool:
        has_next = any(places.has_next for places in self._all)
        return self.is_served and (has_next or bool(self._put_off))

    def offer(self, jobs: Iterable[Job], *, now: float) -> None:
        """Take note of ended jobs whose callback may be due."""
        for job in jobs:
            if not self.is_served or not callback.is_due(job, now=now) or self._is_busy(job.id):
                continue
            places, kept = self._places(job), replace(job, payload=None, result=None)
            if not places.add(kept, now=now) and places.is_slow(job, now=now):
                self._put_off[job.id] = kept

    def plan(
        self, called: Iterable[CallbackAttempted], stored: Mapping[str, Job], plan: Plan
    ) -> None:
        """Decide on the calls that were made, then take as many as can be made now."""
        self._now = plan.now
        for arrival in called:
            self._plan_answer(arrival, stored, plan)
        if not self.is_served:
            return
        for places in self._all:
            for job in places.next_calls(now=plan.now):
                if not self._is_busy(job.id):
                    self._plan_call(job, plan)
        self._plan_to_put_off(plan)

    def settle(self, delivery: Delivery, was_written: bool) -> DecideAgain | MakeCallback | None:
        """Go on after the commit; return what is to be done, if anything."""
        job, cause = delivery.job, delivery.cause
        assert job.callback is not None
        if cause is None and self._put_off.pop(job.id, None) is not None:
            return None
        if not was_written:
            self._counters["writes_refused"] += 1
            return None if cause is None else DecideAgain(replace(cause, is_disputed=True))
        self._answered.pop(job.id, None)
        if job.callback.delivered:
            self._counters["callbacks_delivered"] += 1
        elif job.callback.due is None:
            self._counters["callbacks_given_up"] += 1
        elif cause is not None:
            self._counters["callbacks_failed"] += 1
        elif self.is_served:
            self._calling[job.id] = job
            self._places(job).begin(job, now=self._now)
            return MakeCallback(job)
        return None

    # ---- the steps of a plan

    def _plan_answer(
        self, arrival: CallbackAttempted, stored: Mapping[str, Job], plan: Plan
    ) -> None:
        """Write down how a call went.

        What we wrote when we took the call still stands, unless the store has refused to believe
        it once: then the store's word counts.
        """
        for places in self._all:
            places.end(arrival.job_id, now=plan.now)
        if (mine := self._calling.pop(arrival.job_id, arrival.job)) is not None:
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
                jitter=self._jitter(),
                max_tries=self._rules.max_tries,
                waits=self._rules.waits,
            )
        except JobError:  # another dispatcher has taken it over since, or is through with it
            self._answered.pop(arrival.job_id, None)
            return
        plan.deliveries.append(Delivery(after, arrival))

    def _plan_call(self, job: Job, plan: Plan) -> None:
        assert job.callback is not None
        if job.callback.tries >= self._rules.max_tries:
            plan.deliveries.append(Delivery(callback.given_up(job)))
        elif callback.is_due(job, now=plan.now):
            mine = callback.calling(job, now=plan.now, seconds=self._rules.timeout)
            plan.deliveries.append(Delivery(mine))

    def _plan_to_put_off(self, plan: Plan) -> None:
        due = {
            job.id: job
            for job in self._put_off.values()
            if callback.is_due(job, now=plan.now) and not self._is_busy(job.id)
        }
        self._put_off = due
        for job in due.values():
            seconds = PUT_OFF_SECONDS + PUT_OFF_JITTER * self._jitter()
            plan.deliveries.append(Delivery(callback.postponed(job, now=plan.now, seconds=seconds)))

    def _is_busy(self, job_id: str) -> bool:
        return job_id in self._calling or job_id in self._answered

    def _places(self, job: Job) -> CallbackPlaces:
        assert job.callback is not None
        return self._own.get(job.callback.url.partition("://")[0], self._shared)
