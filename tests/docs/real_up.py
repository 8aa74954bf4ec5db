"""`shunter up` as the pages tell to start it, on ports of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shunter import Client


@contextmanager
def real_up(folder: Path, app: str) -> Iterator[str]:
    """Run a dispatcher and a worker with two slots; give the address for clients."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    address = f"tcp://127.0.0.1:{ports[0]}"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SHUNTER")}
    environ |= {
        "SHUNTER__ZMQ__FRONTEND": address,
        "SHUNTER__ZMQ__BACKEND": f"tcp://127.0.0.1:{ports[1]}",
        "SHUNTER__HTTP__PORT": str(ports[2]),
        "SHUNTER__UDP__CLIENT_ADDRESS__PORT": "0",
    }
    command = [sys.executable, "-m", "shunter", "up", "--app", app, "--max-jobs", "2"]
    with (
        open(folder / "log", "wb") as log,
        subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=log) as up,
    ):
        try:
            with Client(address, timeout=30) as client:
                deadline = time.monotonic() + 30
                while not client.workers():
                    assert time.monotonic() < deadline, (folder / "log").read_text()
                    time.sleep(0.05)
            yield address
        finally:
            up.send_signal(signal.SIGTERM)
            try:
                code = up.wait(timeout=30)
            finally:
                up.kill()
    assert code == 0
