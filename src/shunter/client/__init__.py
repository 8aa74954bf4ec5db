"""The Python client: submit jobs, wait for results, ask and cancel."""

from shunter.client.async_client import AsyncClient, JobOptions
from shunter.client.handle import AsyncJob
from shunter.client.sync_client import Client, SubmittedJob

__all__ = ["AsyncClient", "AsyncJob", "Client", "JobOptions", "SubmittedJob"]
