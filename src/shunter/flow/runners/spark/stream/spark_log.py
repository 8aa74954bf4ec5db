"""Spark's own log of a stream: which part of the sources belongs to which batch.

Spark writes it where it can, which may be a disk of this host alone. What it says of a batch is
therefore in our commit too, and from there it is made anew on another host, or for other sources.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

VOID = "-"
"""What Spark writes of a source of which nothing was read yet."""

COMMITTED = 'v1\n{"nextBatchWatermarkMs":0}'


class SparkLog:
    """The log in a folder, for a stream with these workers of sources, in Spark's order."""

    def __init__(self, folder: Path, readers: Sequence[str]) -> None:
        self.folder, self._readers = folder, list(readers)

    def offsets(self, batch: int) -> tuple[list[str], dict[str, str]]:
        """Return what Spark has noted of a batch: what stands above, and a line for each worker."""
        lines = self._path("offsets", batch).read_text().splitlines()
        at = len(lines) - len(self._readers)
        return lines[:at], dict(zip(self._readers, lines[at:], strict=True))

    def fits(self, batch: int, head: Sequence[str], offsets: Mapping[str, str]) -> bool:
        """True if Spark can go on from here: it has noted this very batch, of these sources."""
        path = self._path("offsets", batch)
        return (
            list(offsets) == self._readers
            and path.is_file()
            and path.read_text().splitlines() == self._lines(head, offsets)
        )

    def restore(self, batch: int, head: Sequence[str], offsets: Mapping[str, str]) -> None:
        """Let Spark go on behind a batch; a source that it did not have begins at its beginning."""
        shutil.rmtree(self.folder, ignore_errors=True)
        text = "\n".join(self._lines(head, offsets))
        for kind, body in (("offsets", text), ("commits", COMMITTED)):
            (self.folder / kind).mkdir(parents=True)
            for number in range(max(0, batch - 1), batch + 1):  # Spark asks for the one before too
                self._path(kind, number).write_text(body)
        (self.folder / "metadata").write_text(f'{{"id":"{uuid.uuid4()}"}}')

    def _lines(self, head: Sequence[str], offsets: Mapping[str, str]) -> list[str]:
        return [*head, *(offsets.get(reader, VOID) for reader in self._readers)]

    def _path(self, kind: str, batch: int) -> Path:
        return self.folder / kind / str(batch)
