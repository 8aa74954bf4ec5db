"""The Python clients: submit jobs, wait for results, ask and cancel; over ZeroMQ or UDP."""

from shunter.client.async_client import AsyncClient
from shunter.client.handle import AsyncJob
from shunter.client.options import JobOptions
from shunter.client.sync_client import Client, SubmittedJob
from shunter.client.sync_udp_client import AddedTask, UdpClient
from shunter.client.udp_client import AsyncTask, AsyncUdpClient

__all__ = [
    "AddedTask",
    "AsyncClient",
    "AsyncJob",
    "AsyncTask",
    "AsyncUdpClient",
    "Client",
    "JobOptions",
    "SubmittedJob",
    "UdpClient",
]
