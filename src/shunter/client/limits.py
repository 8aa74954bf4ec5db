"""The limits of types, as clients see and change them: checked here first.

The asynchronous face asks; the synchronous one has it asked. Neither knows how questions travel.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from shunter.app import JobFunction
from shunter.client.input_checks import checked_change, checked_type
from shunter.client.schedules import Ask
from shunter.errors import LimitsRefused
from shunter.model.limits_record import LimitsChange, TypeLimits
from shunter.wire.messages import BareRequest, Kind, LimitsShown, SetLimits

T = TypeVar("T")

_List = list  # which is the name of a method below


class AsyncLimits:
    """How many jobs of each type may run at once and start in a while, and who holds what."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def list(self) -> _List[TypeLimits]:
        """Return the limits of all types that have any, and who holds how many places."""
        answer = await self._ask(Kind.LIMITS, BareRequest)
        assert isinstance(answer, LimitsShown)
        return [*answer.types]

    async def set(
        self,
        job: str | JobFunction[..., Any],
        *,
        limit: int | None = None,
        by: str | None = None,
        total: int | None = None,
        rate: int | None = None,
        per: float | None = None,
        fair: str | None = None,
    ) -> TypeLimits:
        """Change the limits of a type for all dispatchers, also while its jobs run.

        What is left out stays as it is; 0 takes a limit away, and an empty `fair` the turns.
        `by` is the key of all that goes by one.
        """
        change = {"limit": limit, "by": by, "total": total, "rate": rate, "per": per, "fair": fair}
        job_type = checked_type(job)
        return await self._changed(job_type, checked_change(job_type, change))

    async def reset(self, job: str | JobFunction[..., Any]) -> TypeLimits:
        """Go back to what the app declares."""
        return await self._changed(checked_type(job), LimitsChange(is_default=True))

    async def _changed(self, job_type: str, change: LimitsChange) -> TypeLimits:
        answer = await self._ask(Kind.SET_LIMITS, lambda n: SetLimits(n, job_type, change))
        assert isinstance(answer, LimitsShown)
        if answer.reason:
            raise LimitsRefused(job_type, answer.field, answer.reason)
        return answer.types[0]


class Limits:
    """The same for callers that wait. `do` has a coroutine run."""

    def __init__(self, limits: AsyncLimits, do: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._async, self._do = limits, do

    def list(self) -> _List[TypeLimits]:
        """Return the limits of all types that have any, and who holds how many places."""
        return self._done(self._async.list())

    def set(
        self,
        job: str | JobFunction[..., Any],
        *,
        limit: int | None = None,
        by: str | None = None,
        total: int | None = None,
        rate: int | None = None,
        per: float | None = None,
        fair: str | None = None,
    ) -> TypeLimits:
        """Change the limits of a type for all dispatchers, also while its jobs run.

        What is left out stays as it is; 0 takes a limit away, and an empty `fair` the turns.
        `by` is the key of all that goes by one.
        """
        return self._done(
            self._async.set(job, limit=limit, by=by, total=total, rate=rate, per=per, fair=fair)
        )

    def reset(self, job: str | JobFunction[..., Any]) -> TypeLimits:
        """Go back to what the app declares."""
        return self._done(self._async.reset(job))

    def _done(self, work: Coroutine[Any, Any, T]) -> T:
        done: T = self._do(work)
        return done
