"""What a client asks about one job, beside its record."""

from __future__ import annotations

from shunter.client.schedules import Ask
from shunter.errors import JobNotFound
from shunter.model.explanation import Explanation
from shunter.wire.messages import Kind, WhyAsked, WhyShown


async def ask_why(ask: Ask, job_id: str) -> Explanation:
    """Ask why a job does not run, or raise JobNotFound."""
    answer = await ask(Kind.WHY, lambda n: WhyAsked(n, job_id))
    assert isinstance(answer, WhyShown)
    if answer.explanation is None:
        raise JobNotFound(job_id)
    return answer.explanation
