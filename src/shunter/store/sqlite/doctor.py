"""`shunter doctor --store` for a file: what is wrong with it, and how far it can be mended.

An examination opens the file as any reader does, and never one without content, whose log SQLite
would delete. A repair keeps what it found under another name, and works on files that nobody has
open.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress

from shunter.durable_files import put_in_place, sync
from shunter.errors import StoreError
from shunter.store.finding import Finding, State
from shunter.store.sqlite.connection import APPLICATION_ID, existing, migrations
from shunter.store.sqlite.file_monitor import INDEX, LOG
from shunter.store.sqlite.salvage import MOST_NAMED, Salvaged, salvage
from shunter.store.sqlite.users import OpenFile, users_of

MOST_FAULTS = 10
LEAST_FREE_BYTES = 1024 * 1024
LITTLE_FREE_BYTES = 256 * 1024 * 1024
LONG_LOG_BYTES = 256 * 1024 * 1024
REPAIR = "stop its dispatchers, then type: shunter doctor --store --repair"


def examine(path: str) -> Iterator[Finding]:
    """Look at the file and what it stands on."""
    users = users_of(path)
    there = _presence(path, users)
    yield there
    yield from _surroundings(path)
    if there.state is State.MISSING:
        return
    yield from _sharers(users)
    yield _log(path)
    yield from _content(path)


def _presence(path: str, users: list[OpenFile]) -> Finding:
    lost = [user for user in users if user.is_deleted]
    if not os.path.exists(path):
        if lost:
            fact = f"{path} was deleted, but process {lost[0].pid} still has it open"
            remedy = "leave that process alone, and type: shunter doctor --store --repair"
            return Finding("file", State.MISSING, fact, remedy)
        return Finding("file", State.MISSING, f"{path}: there is no such file", _restore(path))
    if not os.path.isfile(path):
        return Finding("file", State.MISSING, f"{path} is no file", "set store.url to a file")
    found = os.stat(path)
    fact = f"{path}, {found.st_size:,} bytes, inode {found.st_ino}"
    if not found.st_size:
        return Finding("file", State.MISSING, f"{fact}: it is empty", _restore(path))
    return Finding("file", State.OK, fact)


def _surroundings(path: str) -> Iterator[Finding]:
    folder = os.path.dirname(path)
    wanted = [name for name in (path, path + LOG, path + INDEX) if os.path.exists(name)]
    shut = [name for name in (*wanted, folder) if not os.access(name, os.R_OK | os.W_OK)]
    if shut:
        fact, remedy = f"{', '.join(shut)} can't be written", "change its owner or its mode"
        yield Finding("permissions", State.MISSING, fact, remedy)
    else:
        yield Finding("permissions", State.OK, "the files and their folder can be written")
    with suppress(OSError):
        disk = os.statvfs(folder)
        free = disk.f_bavail * disk.f_frsize
        state = State.OK if free >= LITTLE_FREE_BYTES else State.WARN
        state = State.MISSING if free < LEAST_FREE_BYTES else state
        remedy = "" if state is State.OK else f"free some space in {folder}"
        yield Finding("free space", state, f"{free / 1e6:,.0f} MB", remedy)


def _sharers(users: list[OpenFile]) -> Iterator[Finding]:
    sharing = _pids(user for user in users if not user.is_deleted)
    if sharing:
        yield Finding("in use", State.OK, f"by process {sharing}")
    lost = _pids(user for user in users if user.is_deleted)
    if lost:
        fact = f"process {lost} has another file open that was at this path"
        remedy = "it takes this one by itself; what it stored since that was copied is lost"
        yield Finding("replaced", State.WARN, fact, remedy)


def _pids(users: Iterable[OpenFile]) -> str:
    return ", ".join(map(str, sorted({user.pid for user in users})))


def _log(path: str) -> Finding:
    size = os.path.getsize(path + LOG) if os.path.exists(path + LOG) else 0
    fact = f"{size:,} bytes in the write-ahead log"
    if size > LONG_LOG_BYTES:
        remedy = "end whoever reads for long, then type: shunter doctor --store --repair"
        return Finding("log", State.WARN, fact, remedy)
    return Finding("log", State.OK, fact)


def _content(path: str) -> Iterator[Finding]:
    try:
        with closing(_opened(path)) as connection:
            yield _schema(connection)
            faults = _faults(connection)
            counts = "" if faults else _counts(connection)
    except sqlite3.Error as error:
        yield Finding("content", State.MISSING, f"it can't be read: {error}", REPAIR)
        return
    if faults:
        yield Finding("content", State.MISSING, "; ".join(faults), REPAIR)
    else:
        yield Finding("content", State.OK, f"whole: {counts}")


def _schema(connection: sqlite3.Connection) -> Finding:
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    version, newest = connection.execute("PRAGMA user_version").fetchone()[0], len(migrations())
    if owner != APPLICATION_ID:
        remedy = "set store.url to another file"
        return Finding("schema", State.MISSING, "it is another program's database", remedy)
    if version > newest:
        fact = f"version {version}, and this Shunter knows {newest}"
        return Finding("schema", State.MISSING, fact, "install the newer Shunter that wrote it")
    later = "" if version == newest else f", which the next start brings to {newest}"
    return Finding("schema", State.OK, f"version {version}{later}")


def _faults(connection: sqlite3.Connection) -> list[str]:
    connection.execute("PRAGMA cell_size_check = ON")
    rows = connection.execute(f"PRAGMA integrity_check({MOST_FAULTS})").fetchall()
    return [" ".join(str(row[0]).split()) for row in rows if row[0] != "ok"]


def _counts(connection: sqlite3.Connection) -> str:
    jobs = connection.execute("SELECT count(*) FROM jobs").fetchone()[0]
    workers = connection.execute("SELECT count(*) FROM workers").fetchone()[0]
    return f"{jobs:,} jobs, {workers:,} workers"


def _opened(path: str) -> sqlite3.Connection:
    return sqlite3.connect(existing(path), uri=True, timeout=10.0, isolation_level=None)


def _restore(path: str) -> str:
    return (
        f"put a backup there and remove what belonged to the old file: cp BACKUP {path} && "
        f"rm -f {path}{LOG} {path}{INDEX}; without one, the next start makes an empty file"
    )


# ---- repair


def repair(path: str) -> Iterator[Finding]:
    """Mend what can be mended, and look again."""
    users = users_of(path)
    lost = [user for user in users if user.is_deleted]
    if not os.path.exists(path) and lost:
        yield _rescue(path, lost)
    elif not os.path.exists(path) or not os.path.getsize(path):
        yield from examine(path)
        return
    elif users:
        fact = f"process {_pids(users)} has it open, nothing was changed"
        yield Finding("repair", State.MISSING, fact, "stop it, then try again")
        return
    else:
        yield _mended(path)
    yield from examine(path)


def _rescue(path: str, lost: list[OpenFile]) -> Finding:
    """Copy a deleted file out of a process that has it open, with its log."""
    rescued = f"{path}.rescued"
    try:
        shutil.copyfile(lost[0].link, rescued)
        logs = [user for user in users_of(path + LOG) if user.pid == lost[0].pid]
        if logs:
            shutil.copyfile(logs[0].link, rescued + LOG)
        with closing(_opened(rescued)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            faults, counts = _faults(connection), _counts(connection)
        if faults:
            remedy = f"look at {rescued}"
            return Finding("repair", State.MISSING, f"{'; '.join(faults)} in the copy", remedy)
        _set_aside(path)
        os.rename(rescued, path)
    except (OSError, sqlite3.Error) as error:
        return Finding("repair", State.MISSING, f"it could not be copied: {error}", _restore(path))
    fact = f"copied out of process {lost[0].pid}, which had it open: {counts}"
    return Finding("repair", State.OK, fact)


def _mended(path: str) -> Finding:
    """Write the log back; where that does not do, indexes anew; else copy what can be read."""
    try:
        with closing(_opened(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not _faults(connection):
                return Finding("repair", State.OK, "nothing was damaged; the log was written back")
    except sqlite3.Error:
        pass
    kept = _kept_copy(path)
    try:
        with closing(_opened(path)) as connection:
            connection.execute("REINDEX")
            if not _faults(connection):
                return Finding("repair", State.OK, f"indexes made anew; the old file is {kept}")
    except sqlite3.Error:
        pass
    return _salvaged(path, kept)


def _salvaged(path: str, kept: str) -> Finding:
    target = f"{path}.salvaged"
    for name in (target, target + LOG, target + INDEX):
        with suppress(FileNotFoundError):
            os.unlink(name)
    try:
        found = salvage(path, target)
        for name in (path + LOG, path + INDEX):
            with suppress(FileNotFoundError):
                os.unlink(name)
        sync(target)
        put_in_place(target, path)
    except (OSError, sqlite3.Error, StoreError) as error:
        fact = f"nothing can be read from it: {error}; a copy is {kept}"
        return Finding("repair", State.MISSING, fact, _restore(path))
    return _told(found, kept)


def _told(found: Salvaged, kept: str) -> Finding:
    fact = f"{found.jobs:,} jobs could be read and were kept; the damaged file is {kept}"
    faults = []
    if found.unreadable:
        faults.append(f"up to {found.unreadable:,} jobs can't be read")
    if found.left_out:
        named = ", ".join(found.left_out[:MOST_NAMED])
        more = ", ..." if len(found.left_out) > MOST_NAMED else ""
        faults.append(f"{len(found.left_out):,} jobs lost their payload ({named}{more})")
    if found.without_payload:
        faults.append(f"{found.without_payload:,} ended jobs lost their payload and were kept")
    if not faults:
        return Finding("repair", State.OK, fact)
    remedy = "submit again what is missing: the same id or unique key is never run twice"
    return Finding("repair", State.WARN, f"{fact}; {'; '.join(faults)}", remedy)


def _kept_copy(path: str) -> str:
    """Copy the file and its log under another name, before anything is changed."""
    kept = f"{path}.damaged-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    shutil.copy2(path, kept)
    if os.path.exists(path + LOG):
        shutil.copy2(path + LOG, kept + LOG)
    return kept


def _set_aside(path: str) -> None:
    """Rename the log of a file that is gone: to SQLite it would be that of the new one."""
    for name in (path + LOG, path + INDEX):
        with suppress(FileNotFoundError):
            os.replace(name, f"{name}.of-deleted-file")
