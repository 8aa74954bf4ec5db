"""What a client asks about one job or type, beside its record."""

from __future__ import annotations

from typing import Any

from shunter.client.input_checks import checked_change, checked_type
from shunter.client.schedules import Ask
from shunter.errors import JobNotFound, LimitsRefused
from shunter.model.explanation import Explanation
from shunter.model.limits_record import TypeLimits
from shunter.wire.messages import Kind, LimitsShown, SetLimits, WhyAsked, WhyShown


async def ask_why(ask: Ask, job_id: str) -> Explanation:
    """Ask why a job does not run, or raise JobNotFound."""
    answer = await ask(Kind.WHY, lambda n: WhyAsked(n, job_id))
    assert isinstance(answer, WhyShown)
    if answer.explanation is None:
        raise JobNotFound(job_id)
    return answer.explanation


async def change_limits(ask: Ask, job: Any, change: dict[str, Any]) -> TypeLimits:
    """Change the limits of a type, or raise LimitsRefused."""
    job_type = checked_type(job)
    wanted = checked_change(job_type, change)
    answer = await ask(Kind.SET_LIMITS, lambda n: SetLimits(n, job_type, wanted))
    assert isinstance(answer, LimitsShown)
    if answer.reason:
        raise LimitsRefused(job_type, answer.field, answer.reason)
    return answer.types[0]
