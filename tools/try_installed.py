"""Run a job through the Shunter that this Python has installed, as somebody who just got it would.

Called by tools/release.py and in the container's root with `python -I`, so that nothing of the
project's folder is imported. Ends with 0 if the job's result is right.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import shunter

APP = """
from shunter import App

app = App()


@app.job
def square(n: int) -> int:
    return n * n
"""


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(listener.getsockname()[1]) for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


def main() -> None:
    program = Path(sys.executable).with_name("shunter")
    if not Path(shunter.__file__).is_relative_to(sys.prefix):
        sys.exit(f"{shunter.__file__} is not the installed one")
    frontend, backend, http = free_ports(3)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SHUNTER")}
    environ |= {
        "SHUNTER__ZMQ__FRONTEND": f"tcp://127.0.0.1:{frontend}",
        "SHUNTER__ZMQ__BACKEND": f"tcp://127.0.0.1:{backend}",
        "SHUNTER__HTTP__PORT": str(http),
        "SHUNTER__UDP__ENABLED": "false",
    }
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "squares.py").write_text(APP)
        up = subprocess.Popen([program, "up", "--app", "squares.py"], cwd=folder, env=environ)
        try:
            done = subprocess.run(
                [program, "submit", "square", "12", "--wait", "--wait-timeout", "60"],
                cwd=folder, env=environ, capture_output=True, text=True, timeout=90, check=False,
            )  # fmt: skip
        finally:
            up.send_signal(signal.SIGTERM)
            code = up.wait(30)
    if done.stdout.strip() != "144" or code != 0:
        sys.exit(
            f"a job of the installed Shunter: {done.stdout}{done.stderr}; up ended with {code}"
        )


if __name__ == "__main__":
    main()
