"""Whether the file that is open is still the one that its path names, and whole.

A file that was deleted or replaced takes writes as before, and nobody will ever read them. So the
threads look where the paths lead, every second; and after each commit if the kernel has told that
names in their folder changed, or the file itself (`file_watch.py`). One that shrank is in doubt
until `inspector.py` has read it. A commit would make the log grow over a cut, so the writer glances
at its size before each one and after it, by a descriptor, which is cheaper than by path.
None of this opens the files: closing one that was would drop all of SQLite's locks on it.
"""

from __future__ import annotations

import fcntl
import os
import threading
from time import monotonic

from shunter.errors import StoreError
from shunter.store.sqlite.file_look import OpenedFile, SeenFile, seen_at
from shunter.store.sqlite.file_watch import FileWatch

LOOK_SECONDS = 1.0

LOG, INDEX = "-wal", "-shm"

BEGIN_AGAIN = "restart the dispatchers to begin with an empty one"


class FileChanged(StoreError):
    """The path names another file than the one that is open, or none."""


class FileDamaged(StoreError):
    """The file can't be read as it should, or that is yet to be seen."""


class Unacknowledged(StoreError):
    """The file was changed while a commit was written to it; `result` counts if it comes back."""

    def __init__(self, cause: StoreError, result: object, generation: int) -> None:
        super().__init__(str(cause))
        self.result, self.generation = result, generation


class FileMonitor:
    """One file and its write-ahead log. `generation` counts the files that were opened."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.generation = 0
        self.doubt = threading.Event()
        """Set when the inspector should look now, and not only when it is due."""
        self._seen: dict[str, SeenFile] = {}
        self._looked_at = 0.0
        self._log: OpenedFile | None = None
        self._watch: FileWatch | None = None
        self._lock = threading.Lock()
        self._damage = ""

    @property
    def is_gone(self) -> bool:
        """True if there is no file at the path."""
        return seen_at(self.path) is None

    @property
    def is_another(self) -> bool:
        """True if there is a file at the path, and not the one that was opened."""
        found, known = seen_at(self.path), self._seen.get(self.path)
        return found is not None and known is not None and not found.is_same_as(known)

    @property
    def is_empty(self) -> bool:
        """True if the file at the path has no content."""
        found = seen_at(self.path)
        return found is not None and found.size == 0

    @property
    def is_damaged(self) -> bool:
        """True if the file was found damaged, or is in doubt."""
        return bool(self._damage)

    def adopt(self) -> None:
        """Take the files at the path for those that were just opened."""
        self.let_go()
        self._watch = FileWatch(self.path)
        self._log = OpenedFile(self.path + LOG)
        seen = {name: seen_at(name) for name in self._names()}
        with self._lock:
            self._seen = {name: found for name, found in seen.items() if found is not None}
            self._damage = ""
            self.generation += 1

    def forget(self) -> None:
        """Begin anew: whatever is at the path may be opened."""
        with self._lock:
            self._seen, self._damage, self.generation = {}, "", 0
        self.doubt.clear()

    def let_go(self) -> None:
        """Close what `glance` and `look_after_commit` look through."""
        for it in (self._log, self._watch):
            if it is not None:
                it.close()
        self._log = self._watch = None

    def glance(self) -> None:
        """Raise a StoreError if the log that is open was cut since the last look, or on damage.

        Only for the thread that adopts files. Whether a path still names it is not looked at.
        """
        assert self._log is not None
        size, name = self._log.size(), self.path + LOG
        if size != (known := self._seen[name]).size:
            if size < known.size:
                self._shrank(name, size)
            else:
                self._seen[name] = known._replace(size=size)
        if self._damage:
            raise FileDamaged(self._damage)

    def look_after_commit(self) -> None:
        """As `look`; but by path only if there is news, and once a second for what is not told."""
        is_due = monotonic() - self._looked_at >= LOOK_SECONDS
        if is_due or self._watch is None or self._watch.has_news():
            self.look()
        else:
            self.glance()

    def look(self) -> None:
        """Raise a StoreError unless all is as it was, or has grown."""
        looked_at = monotonic()
        for name, known in tuple(self._seen.items()):
            if (found := seen_at(name)) == known:
                continue
            if found is None or not found.is_same_as(known):
                raise FileChanged(self._change(name, is_gone=found is None))
            if found.size < known.size:
                self._shrank(name, found.size)
            self._seen[name] = found
        self._looked_at = looked_at
        if self._damage:
            raise FileDamaged(self._damage)

    def set_old_log_aside(self) -> None:
        """Rename the log of the file that was open: to SQLite it would be that of the new one."""
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)  # other dispatchers are about to do the same
            for name in (self.path + LOG, self.path + INDEX):
                found, known = seen_at(name), self._seen.get(name)
                if found is not None and known is not None and found.is_same_as(known):
                    os.replace(name, f"{name}.of-replaced-file")
        finally:
            os.close(folder)

    def found_whole(self) -> None:
        """Take back what was feared or seen before."""
        with self._lock:
            self._damage = ""

    def found_damaged(self, fault: str) -> None:
        """Refuse all further work until the file is another one, or is found whole."""
        with self._lock:
            self._damage = (
                f"store {self.path}: it is damaged ({fault}); stop its dispatchers, then type: "
                "shunter doctor --store --repair"
            )

    def log_bytes(self) -> int:
        """Return how long the write-ahead log is."""
        found = seen_at(self.path + LOG)
        return 0 if found is None else found.size

    def _shrank(self, name: str, size: int) -> None:
        """Let nothing be done on the file until it has been read."""
        known = self._seen[name]
        fact = f"{os.path.basename(name)} shrank from {known.size:,} to {size:,} bytes"
        with self._lock:
            self._damage = f"store {self.path}: {fact}; it is being checked"
            self._seen[name] = known._replace(size=size)
        self.doubt.set()

    def _names(self) -> tuple[str, ...]:
        return (self.path, self.path + LOG, self.path + INDEX)

    def _change(self, name: str, *, is_gone: bool) -> str:
        happened = "was deleted" if is_gone else "was replaced by another file"
        if name != self.path:
            return (
                f"store {self.path}: its {os.path.basename(name)} {happened} while in use; stop "
                "all dispatchers with SIGTERM, the last of which writes back what it knows, then "
                "start them"
            )
        if is_gone:
            return (
                f"store {self.path}: the file {happened} while in use; as long as this process "
                f"({os.getpid()}) lives it can be put back: shunter doctor --store --repair; "
                f"or {BEGIN_AGAIN}"
            )
        return (
            f"store {self.path}: the file {happened} while in use; the new one is taken, without "
            "what was acknowledged since it was copied"
        )
