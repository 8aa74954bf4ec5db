"""What systemd is told of a process that it started: that it is ready, and that it still lives.

The protocol is one datagram of text to the socket in NOTIFY_SOCKET (sd_notify(3)). Without that
variable nobody asks, and nothing is sent. The units are in deploy/systemd.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping

import structlog


async def keep_informed(ready: asyncio.Event, environ: Mapping[str, str]) -> None:
    """Say READY when we are; then, as often as systemd wants to hear it, that the loop turns.

    A manager that can't be told is not worth a death: it is logged, and systemd acts as it must.
    """
    address = environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.setblocking(False)
            manager.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            await ready.wait()
            manager.send(b"READY=1")
            pause = watchdog_seconds(environ, os.getpid()) / 2
            while pause:
                await asyncio.sleep(pause)
                manager.send(b"WATCHDOG=1")
    except OSError as error:
        structlog.get_logger("shunter").warning(
            "the service manager can't be told", action="notify", error=str(error)
        )


def watchdog_seconds(environ: Mapping[str, str], pid: int) -> float:
    """Return within which time systemd wants to hear from this process; 0 if it does not."""
    wanted, of = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    is_ours = not of or of == str(pid)
    return int(wanted) / 1e6 if is_ours and wanted.isascii() and wanted.isdigit() else 0.0
