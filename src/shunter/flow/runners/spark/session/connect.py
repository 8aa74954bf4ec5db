"""Spark Connect: a session on a server far away, reached at sc://HOST:PORT, without Java here.

Batch runs do with what it offers. What it has not got is refused by `needs_classic`: there is no
SparkContext, hence no streams of ours, whose sinks are fed in the driver, and no barrier stages.
"""

from __future__ import annotations

import atexit
import re
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from shunter.errors import FlowError
from shunter.flow.runners.spark.session.kinds import CONNECT_SECONDS, is_connect, pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_PORT = 15002

_URL = re.compile(r"sc://([^/:;]+)(?::(\d+))?(/.*)?")
_NEEDED = ("grpc", "grpc_status", "google.rpc", "pandas")


def connect_session(remote: str) -> SparkSession:
    """Return the session of this process on a Connect server, or start one."""
    found = _URL.fullmatch(remote)
    if found is None:
        raise FlowError(f"{remote!r} is no address of Spark Connect; write sc://HOST:PORT")
    sessions = pyspark("pyspark.sql").SparkSession
    running = sessions.getActiveSession()
    _check_process(running, remote)
    for module in _NEEDED:
        _needed(module)
    _check_reachable(remote, found[1], int(found[2] or DEFAULT_PORT))
    try:
        session: SparkSession = sessions.builder.remote(remote).getOrCreate()
        session.conf.get("spark.sql.shuffle.partitions")  # a server that is none of Spark's fails
    except Exception as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise FlowError(
            f"the Spark Connect server {remote} takes no session ({said}); see that it is of Spark "
            f"{pyspark().__version__}, and that the address has what it asks for"
        ) from error
    if session is not running:
        atexit.register(_end, session)
    return session


def needs_classic(session: Any, what: str) -> None:
    """Refuse a session on a Connect server for something that such a server can't do."""
    if is_connect(session):
        raise FlowError(
            f"{what} needs a driver of its own, which Spark Connect has not got; use --master, or "
            "a SparkSession without remote()"
        )


def _end(session: SparkSession) -> None:
    """Let the server forget the session, and its client end before Python's threads do.

    A client that is closed later waits forever for a call that was still under way.
    """
    with suppress(Exception):
        session.stop()


def _check_process(running: Any, remote: str) -> None:
    if running is not None and not is_connect(running):
        raise FlowError(
            f"this process has a Spark session on {running.sparkContext.master!r} already, so it "
            f"can't have one on {remote}; stop that one first, or use another process"
        )


def _needed(module: str) -> None:
    try:
        __import__(module)
    except ImportError as error:
        raise FlowError(
            f"Spark Connect needs more than PySpark ({error}); type: pip install 'shunter[connect]'"
        ) from error


def _check_reachable(remote: str, host: str, port: int) -> None:
    """Ask before the client does: it would try for minutes."""
    try:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise FlowError(
            f"the Spark Connect server {remote} can't be reached ({error}); start it, or name "
            "another with --remote; without one Spark runs here"
        ) from error
