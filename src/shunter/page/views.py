"""All views, in the order of the menu."""

from __future__ import annotations

from shunter.page.flow_views import FLOW, FLOWS
from shunter.page.job_views import JOB, JOBS
from shunter.page.rule_views import LIMIT, LIMITS, SCHEDULE, SCHEDULES
from shunter.page.run_views import WORKFLOW, WORKFLOWS
from shunter.page.system_views import DISPATCHERS, OVERVIEW, WORKERS

VIEWS = (
    OVERVIEW,
    JOBS,
    JOB,
    WORKFLOWS,
    WORKFLOW,
    FLOWS,
    FLOW,
    SCHEDULES,
    SCHEDULE,
    LIMITS,
    LIMIT,
    WORKERS,
    DISPATCHERS,
)
