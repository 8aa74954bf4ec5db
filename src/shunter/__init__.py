"""Shunter gets jobs to workers and events to stages.

Names are imported when first used: a worker's child process needs the app, not the client.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shunter.aes_codec import AesCodec
    from shunter.app import App, JobFunction
    from shunter.client import (
        AsyncClient,
        AsyncJob,
        AsyncUdpClient,
        Client,
        SubmittedJob,
        UdpClient,
    )
    from shunter.codec import Codec, CodecContext
    from shunter.context import PROVIDED, Context, Fail, Snooze, Terminated
    from shunter.errors import (
        CodecError,
        DispatcherBusy,
        FlowError,
        FlowFailed,
        JobCancelled,
        JobError,
        JobFailed,
        JobNotFound,
        JobRefused,
        NotPlaced,
        ResultTimeout,
        ScheduleError,
        ScheduleNotFound,
        ScheduleRefused,
        ShunterError,
        StoreUnavailable,
        Unreachable,
    )
    from shunter.flow.flow import Flow
    from shunter.flow.graph.instructions import Instruction
    from shunter.model.job import Job, Status
    from shunter.model.job_limits import Limit, Rate
    from shunter.model.retry import Retry
    from shunter.model.schedule import Schedule
    from shunter.model.timing import Cron, Every
    from shunter.model.unique import Unique

__version__ = "0.1.0"

__all__ = [
    "PROVIDED",
    "AesCodec",
    "App",
    "AsyncClient",
    "AsyncJob",
    "AsyncUdpClient",
    "Client",
    "Codec",
    "CodecContext",
    "CodecError",
    "Context",
    "Cron",
    "DispatcherBusy",
    "Every",
    "Fail",
    "Flow",
    "FlowError",
    "FlowFailed",
    "Instruction",
    "Job",
    "JobCancelled",
    "JobError",
    "JobFailed",
    "JobFunction",
    "JobNotFound",
    "JobRefused",
    "Limit",
    "NotPlaced",
    "Rate",
    "ResultTimeout",
    "Retry",
    "Schedule",
    "ScheduleError",
    "ScheduleNotFound",
    "ScheduleRefused",
    "ShunterError",
    "Snooze",
    "Status",
    "StoreUnavailable",
    "SubmittedJob",
    "Terminated",
    "UdpClient",
    "Unique",
    "Unreachable",
]

_HOMES = {
    "shunter.aes_codec": ("AesCodec",),
    "shunter.app": ("App", "JobFunction"),
    "shunter.client": (
        "AsyncClient",
        "AsyncJob",
        "AsyncUdpClient",
        "Client",
        "SubmittedJob",
        "UdpClient",
    ),
    "shunter.codec": ("Codec", "CodecContext"),
    "shunter.context": ("PROVIDED", "Context", "Fail", "Snooze", "Terminated"),
    "shunter.errors": (
        "CodecError",
        "DispatcherBusy",
        "FlowError",
        "FlowFailed",
        "JobCancelled",
        "JobError",
        "JobFailed",
        "JobNotFound",
        "JobRefused",
        "NotPlaced",
        "ResultTimeout",
        "ScheduleError",
        "ScheduleNotFound",
        "ScheduleRefused",
        "ShunterError",
        "StoreUnavailable",
        "Unreachable",
    ),
    "shunter.flow.flow": ("Flow",),
    "shunter.flow.graph.instructions": ("Instruction",),
    "shunter.model.job": ("Job", "Status"),
    "shunter.model.job_limits": ("Limit", "Rate"),
    "shunter.model.retry": ("Retry",),
    "shunter.model.schedule": ("Schedule",),
    "shunter.model.timing": ("Cron", "Every"),
    "shunter.model.unique": ("Unique",),
}


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'shunter' has no attribute {name!r}")
