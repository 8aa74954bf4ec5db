"""Examinations of this machine: interpreter, packages, Java, limits, memory, clock."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

from shunter.cli.finding import Finding, State, Surroundings
from shunter.store.registry import kind_of

OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17
OLDEST_SQLITE = (3, 38, 0)
FEWEST_FILES = 1024
SHARED_FOLDER = "/dev/shm"  # noqa: S108
INSTALL_JAVA = "apt-get install openjdk-17-jre-headless"

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)\s*(?:>=\s*(?P<oldest>[0-9.]+))?")
_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_UNSYNCHRONISED = 5


def system(_: Surroundings) -> Finding:
    fact = f"{platform.system()} {platform.release()} {platform.machine()}"
    if sys.platform == "linux":
        return Finding("system", State.OK, fact)
    return Finding("system", State.WARN, fact, "children may outlive a killed worker: use Linux")


def python(_: Surroundings) -> Finding:
    fact = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info >= OLDEST_PYTHON:
        return Finding("python", State.OK, fact)
    return Finding("python", State.MISSING, fact, "install Python 3.11 or newer")


def packages(_: Surroundings) -> Finding:
    """Compare what the installed Shunter asks for with what is there."""
    try:
        wanted = metadata.requires("shunter") or []
    except metadata.PackageNotFoundError:
        return Finding("packages", State.WARN, "shunter itself is not installed", "make setup")
    present: list[str] = []
    absent: list[str] = []
    for requirement in wanted:
        match = _REQUIREMENT.match(requirement)
        if match is None or "extra ==" in requirement:
            continue
        try:
            version = metadata.version(match["name"])
        except metadata.PackageNotFoundError:
            absent.append(f"{match['name']} (not installed)")
            continue
        too_old = numbers_in(version) < numbers_in(match["oldest"] or "0")
        (absent if too_old else present).append(f"{match['name']} {version}")
    if absent:
        names = ", ".join(absent)
        return Finding("packages", State.MISSING, names, "pip install --upgrade shunter")
    return Finding("packages", State.OK, ", ".join(present))


def sqlite(surroundings: Surroundings) -> Finding:
    fact = f"SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info >= OLDEST_SQLITE:
        return Finding("sqlite", State.OK, fact)
    needed = kind_of(surroundings.settings.store.url).needs_sqlite
    oldest = ".".join(map(str, OLDEST_SQLITE))
    remedy = f"use a Python that is linked with SQLite {oldest} or newer"
    return Finding("sqlite", State.MISSING if needed else State.WARN, fact, remedy)


def java(surroundings: Surroundings) -> Finding:
    """Look for the Java that Spark would use; jobs do without."""
    home = surroundings.environ.get("JAVA_HOME")
    program = (
        str(Path(home, "bin", "java"))
        if home
        else shutil.which("java", path=surroundings.environ.get("PATH"))
    )
    remedy = f"needed for flows on Spark alone; type: {INSTALL_JAVA}"
    if program is None:
        return Finding("java", State.WARN, "not found", remedy)
    try:
        answer = subprocess.run(  # noqa: S603
            [program, "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("java", State.WARN, f"{program} can't be run: {error}", remedy)
    match = _JAVA_VERSION.search(answer.stderr + answer.stdout)
    if match is None:
        return Finding("java", State.WARN, f"{program} does not tell its version", remedy)
    fact = f"Java {match[1]} at {program}"
    if int(match[1]) >= OLDEST_JAVA:
        return Finding("java", State.OK, fact)
    return Finding("java", State.WARN, fact, remedy)


def open_files(_: Surroundings) -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fact = f"{soft} (ulimit -n), at most {hard}"
    if soft >= FEWEST_FILES or soft == resource.RLIM_INFINITY:
        return Finding("open files", State.OK, fact)
    return Finding("open files", State.WARN, fact, f"type: ulimit -n {FEWEST_FILES}, or more")


def shared_memory(_: Surroundings) -> Finding:
    """Look for memory that a worker can share with its children."""
    if hasattr(os, "memfd_create"):
        try:
            os.close(os.memfd_create("shunter-doctor"))
        except OSError:
            pass
        else:
            return Finding("shared memory", State.OK, "memfd")
    if os.access(SHARED_FOLDER, os.W_OK):
        return Finding("shared memory", State.OK, SHARED_FOLDER)
    return Finding(
        "shared memory", State.MISSING, "neither memfd nor /dev/shm", "mount a tmpfs on /dev/shm"
    )


def clock(surroundings: Surroundings) -> Finding:
    """Look whether the clock is plausible, steady, and (with several hosts) synchronised."""
    born = Path(__file__).stat().st_mtime
    wall, steady = time.time(), time.monotonic()
    time.sleep(0.05)
    drift = abs((time.time() - wall) - (time.monotonic() - steady))
    now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(wall))
    remedy = "set the clock and keep it with NTP: apt-get install systemd-timesyncd"
    if wall < born - 86400:
        return Finding("clock", State.WARN, f"{now}, older than this program", remedy)
    if drift > 0.02:
        return Finding("clock", State.WARN, f"{now}, but it jumped by {drift:.3f} s", remedy)
    if is_synchronised() is not False:
        return Finding("clock", State.OK, now)
    fact = f"{now}, not synchronised"
    if not kind_of(surroundings.settings.store.url).is_local:
        return Finding("clock", State.WARN, fact, remedy)
    return Finding("clock", State.OK, f"{fact} (one host needs no more)")


def is_synchronised() -> bool | None:
    """Ask the kernel whether something keeps its clock right; None where it does not say."""
    try:
        answer: int = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512))
    except (OSError, AttributeError):
        return None
    return None if answer < 0 else answer != _UNSYNCHRONISED


def numbers_in(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
