"""All views, in the order of the menu."""

from __future__ import annotations

from shunter.page.flow_views import FLOW, FLOWS
from shunter.page.job_views import JOB, JOBS
from shunter.page.rule_views import LIMIT, LIMITS, SCHEDULES
from shunter.page.system_views import DISPATCHERS, OVERVIEW, WORKERS

VIEWS = (
    OVERVIEW,
    JOBS,
    JOB,
    FLOWS,
    FLOW,
    SCHEDULES,
    LIMITS,
    LIMIT,
    WORKERS,
    DISPATCHERS,
)
