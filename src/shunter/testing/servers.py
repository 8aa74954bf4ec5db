"""Servers that tests start: each dies with the process that started it, however that ends."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

_LAUNCH = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""Becomes the server, and dies with the process that started it (PR_SET_PDEATHSIG)."""


def launch(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a server, whose program is named by its path; `options` are those of Popen.

    The kernel ends it with the thread that calls this, so that should be one which stays.
    """
    launcher = [sys.executable, "-S", "-c", _LAUNCH, str(os.getpid())]
    return subprocess.Popen(  # noqa: S603  the command is all ours
        [*launcher, *command], stdin=subprocess.DEVNULL, **options
    )


def free_port() -> int:
    """Return a port of loopback that nothing listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
