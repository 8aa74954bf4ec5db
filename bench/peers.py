"""Other dispatchers on the same machine: no-op jobs, results returned, two workers each.

They live in `.venv-peers`, which is made here when it is needed, and are never a dependency. One
that can't be installed or started is left out with a line that says why. What they promise
differs: Huey's and Procrastinate's jobs are on the disk when they are accepted, Celery's in Redis
as it comes (a snapshot now and then), Ray's in memory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.stage import REPOSITORY, START_SECONDS, Stage, free_ports, listen

VENV = REPOSITORY / ".venv-peers"
PYTHON = str(VENV / "bin" / "python")
INSTALL_SECONDS = 280.0
MEASURE_SECONDS = 200.0


class Skipped(Exception):
    """A peer can't be measured here; the message says why."""


@contextmanager
def _celery(stage: Stage) -> Iterator[None]:
    server = shutil.which("redis-server")
    if server is None:
        raise Skipped("redis-server is missing; type: apt-get install redis-server")
    port = str(free_ports(1)[0])
    address = f"redis://127.0.0.1:{port}/0"
    options = ("--bind", "127.0.0.1", "--port", port, "--dir", str(stage.folder))
    redis = stage.start(*options, python=server)
    time.sleep(0.5)
    stage.check(redis)
    with _environment(BENCH_PEER_AT=address):
        worker = ("-m", "celery", "--app", "bench.peer_celery", "worker", "--concurrency", "2")
        quiet = ("--without-gossip", "--without-mingle", "--loglevel", "ERROR")
        _start(stage, *worker, *quiet)
        yield


@contextmanager
def _huey(stage: Stage) -> Iterator[None]:
    with _environment(BENCH_PEER_AT=str(stage.folder / "huey.db")):
        polling = ("--delay", "0.01", "--max-delay", "0.01", "--quiet")
        consumer = ("-m", "huey.bin.huey_consumer", "bench.peer_huey.huey")
        _start(stage, *consumer, "--workers", "2", "--worker-type", "process", *polling)
        yield


@contextmanager
def _ray(stage: Stage) -> Iterator[None]:
    # It writes into the home folder and into /tmp; both are here for as long as it runs.
    with _environment(HOME=str(stage.folder), RAY_TMPDIR=str(stage.folder)):
        yield


@contextmanager
def _procrastinate(stage: Stage) -> Iterator[None]:
    with _postgres(stage) as address, _environment(BENCH_PEER_AT=address):
        command = ("-m", "procrastinate", "--app", "bench.peer_procrastinate.app")
        _prepare([PYTHON, *command, "schema", "--apply"])
        for _ in range(2):
            _start(stage, *command, "--log-level", "error", "worker", "--concurrency", "1")
        yield


@contextmanager
def _postgres(stage: Stage) -> Iterator[str]:
    """A server of our own on a socket in the folder, which commits to the disk as it should."""
    programs = _postgres_programs()
    folder, sockets = stage.folder / "postgres", stage.folder / "sockets"
    for each in (folder, sockets):
        each.mkdir()
    as_user: list[str] = []
    if os.geteuid() == 0:  # it refuses to run as root
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]
        stage.folder.chmod(0o711)
        for each in (folder, sockets):
            shutil.chown(each, "postgres", "postgres")
    create = ["initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"]
    _prepare([*as_user, str(programs / create[0]), *create[1:], "--pgdata", str(folder)])
    settings = ("listen_addresses=", f"unix_socket_directories={sockets}", "fsync=on")
    options = [part for each in (*settings, "synchronous_commit=on") for part in ("-c", each)]
    command = [*as_user, str(programs / "postgres"), "-D", str(folder), *options]
    server = stage.start(*command[1:], python=command[0])
    state, deadline = folder / "postmaster.pid", time.monotonic() + START_SECONDS
    while not (state.exists() and state.read_text().rstrip().endswith("ready")):
        stage.check(server)
        if time.monotonic() > deadline:
            raise Skipped(f"PostgreSQL takes no connections within {START_SECONDS:g} s")
        time.sleep(0.1)
    yield f"host={sockets} user=postgres dbname=postgres"


def _postgres_programs() -> Path:
    """Find the newest PostgreSQL; Debian does not put its server on the PATH."""
    versions = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    found = max(versions, key=lambda program: float(program.parts[-3]), default=None)
    server = found or shutil.which("postgres")
    if server is None:
        raise Skipped("PostgreSQL is missing; type: apt-get install postgresql")
    return Path(server).parent


PEERS: dict[str, tuple[str, Callable[[Stage], Any], int]] = {
    "celery": ("celery[redis]", _celery, 5000),
    "huey": ("huey", _huey, 5000),
    "ray": ("ray", _ray, 10_000),
    "procrastinate": ("procrastinate", _procrastinate, 4000),
}
"""What to install, how to start it, and how many jobs to time."""


def measure(name: str, say: Callable[[str], None], *, is_quick: bool) -> dict[str, Any]:
    """Measure one peer, or raise Skipped."""
    package, started, jobs = PEERS[name]
    say(f"{name}: installing into {VENV.name}")
    install(package)
    say(f"{name}: measuring")
    with Stage() as stage, started(stage):
        sizes = [str(jobs // 10 if is_quick else jobs), "200"]
        command = [PYTHON, "-m", f"bench.peer_{name}", *sizes]
        try:
            said = list(listen(command, seconds=MEASURE_SECONDS))
        except RuntimeError as error:
            raise Skipped(str(error)) from None
    figures: dict[str, Any] = said[-1]["figures"]
    return {**figures, "version": _version(package.partition("[")[0])}


def install(package: str) -> None:
    """Have a package in the peers' own environment, or raise Skipped."""
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]
    try:
        if not Path(PYTHON).exists():
            _run([shutil.which("python3") or "python3", "-m", "venv", str(VENV)])
        _run(pip)
    except (subprocess.SubprocessError, OSError) as error:
        raise Skipped(f"can't be installed: {_last_word(error)}") from None


def _prepare(command: list[str]) -> None:
    try:
        _run(command)
    except (subprocess.SubprocessError, OSError) as error:
        raise Skipped(f"{' '.join(command)}: {_last_word(error)}") from None


def _last_word(error: Exception) -> str:
    printed: str = getattr(error, "stderr", None) or str(error)
    return printed.strip().splitlines()[-1]


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)


def _version(package: str) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    printed = subprocess.run([PYTHON, "-c", code], check=True, capture_output=True, text=True)
    return printed.stdout.strip()


def _start(stage: Stage, *command: str) -> None:
    process = stage.start(*command, python=PYTHON)
    time.sleep(3.0)
    try:
        stage.check(process)
    except RuntimeError as error:
        raise Skipped(str(error)) from None


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
