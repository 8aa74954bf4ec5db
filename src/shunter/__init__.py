"""Shunter gets jobs to workers and events to stages."""

from shunter.app import App, Context, JobFunction
from shunter.client import AsyncClient, AsyncJob, Client, SubmittedJob
from shunter.errors import (
    JobCancelled,
    JobError,
    JobFailed,
    JobNotFound,
    JobRefused,
    ResultTimeout,
    ShunterError,
    Unreachable,
)
from shunter.model.job import Job, Status
from shunter.model.retry import Retry

__version__ = "0.1.0"

__all__ = [
    "App",
    "AsyncClient",
    "AsyncJob",
    "Client",
    "Context",
    "Job",
    "JobCancelled",
    "JobError",
    "JobFailed",
    "JobFunction",
    "JobNotFound",
    "JobRefused",
    "ResultTimeout",
    "Retry",
    "ShunterError",
    "Status",
    "SubmittedJob",
    "Unreachable",
]
