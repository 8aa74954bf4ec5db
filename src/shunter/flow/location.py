"""Where files are: one path type for sources, sinks and checkpoints, on any file system.

A plain path and `file://` are this host's disk. Any other URL is one of pyarrow's file systems
(s3://, gs://, abfs://, hdfs://), and what these don't know is looked up in fsspec. Names that Spark
uses for the same stores, such as s3a://, are understood.
"""

from __future__ import annotations

import glob
import importlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import unquote, urlsplit

from shunter.durable_files import sync, write_whole
from shunter.errors import FlowError
from shunter.flow.arrow import arrow

AnyPath = str | os.PathLike[str]

_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "viewfs": "hdfs"}
"""What Spark calls a store, and what pyarrow calls it."""

_RENAMING = ("file", "hdfs")
"""File systems on which a rename moves a file or folder in one step; all others are object stores.

Azure (abfs) has that only with a hierarchical namespace, which a URL does not tell."""


class FileInfo(NamedTuple):
    """A file: its location, its size, and when it was last written, in seconds since 1970."""

    location: Location
    size: int
    modified: float


@dataclass(frozen=True, slots=True)
class Location:
    """A file or folder. `url` means the same in every process that can reach it."""

    url: str

    @classmethod
    def of(cls, path: AnyPath | Location) -> Location:
        """Make one of what a user gave: a path, or a URL."""
        if isinstance(path, Location):
            return path
        text = os.fspath(path)
        found = _URL.match(text)
        if found is None:
            return cls(os.path.abspath(text))
        scheme = found[1].lower()
        if scheme == "file":
            return cls(os.path.abspath(unquote(urlsplit(text).path)))
        return cls(f"{_SAME.get(scheme, scheme)}://{text[found.end() :]}".rstrip("/"))

    def __str__(self) -> str:
        return self.url

    @property
    def scheme(self) -> str:
        found = _URL.match(self.url)
        return "file" if found is None else found[1]

    @property
    def is_local(self) -> bool:
        return self.scheme == "file"

    @property
    def renames(self) -> bool:
        """True if a rename moves a whole folder in one step there."""
        return self.scheme in _RENAMING

    @property
    def path(self) -> Path:
        """The path on this host's disk."""
        assert self.is_local, f"{self.url} is elsewhere"
        return Path(self.url)

    @property
    def name(self) -> str:
        return PurePosixPath(self.url).name

    @property
    def parent(self) -> Location:
        return Location(self.url.rpartition("/")[0] or "/")

    def __truediv__(self, name: str) -> Location:
        return Location(f"{self.url.rstrip('/')}/{name}")

    # ---- reading

    def open(self) -> BinaryIO:
        """Open a file for reading."""
        if self.is_local:
            return open(self.url, "rb")
        store, path = self.store
        with file_faults(self, "read"):
            found: BinaryIO = store.open_input_file(path)
        return found

    def read(self) -> bytes:
        with self.open() as file:
            return file.read()

    def exists(self) -> bool:
        return self.is_file() or self.is_folder()

    def is_file(self) -> bool:
        return os.path.isfile(self.url) if self.is_local else self._kind() == "File"

    def is_folder(self) -> bool:
        return os.path.isdir(self.url) if self.is_local else self._kind() == "Directory"

    def size(self) -> int:
        if self.is_local:
            return os.path.getsize(self.url)
        store, path = self.store
        with file_faults(self, "read"):
            return int(store.get_file_info(path).size or 0)

    def files(self, *, recursive: bool = False) -> list[FileInfo]:
        """Return the files in a folder, in the order of their names; none if it is not there."""
        if self.is_local:
            return _local_files(self.path, recursive=recursive)
        fs = arrow("pyarrow.fs")
        store, path = self.store
        selector = fs.FileSelector(path, allow_not_found=True, recursive=recursive)
        with file_faults(self, "read"):
            infos = store.get_file_info(selector)
        base = self.url[: len(self.url) - len(path)]
        found = [
            FileInfo(Location(base + info.path), int(info.size or 0), (info.mtime_ns or 0) / 1e9)
            for info in infos
            if info.type == fs.FileType.File
        ]
        return sorted(found, key=lambda info: info.location.url)

    def info(self) -> FileInfo:
        """Return size and time of a file."""
        if self.is_local:
            with file_faults(self, "read"):
                stat = os.stat(self.url)
            return FileInfo(self, stat.st_size, stat.st_mtime)
        store, path = self.store
        with file_faults(self, "read"):
            found = store.get_file_info(path)
        return FileInfo(self, int(found.size or 0), (found.mtime_ns or 0) / 1e9)

    def matching(self) -> list[Location]:
        """Return the files that this means as a pattern with `*`, `?` and `[…]`."""
        return [info.location for info in self.matching_files()]

    def matching_files(self) -> list[FileInfo]:
        """Return the same with their sizes and times, for which nobody asks again."""
        if self.is_local:
            found = sorted(filter(os.path.isfile, glob.glob(self.url, recursive=True)))
            return [Location(each).info() for each in found]
        fixed = re.split(r"[*?\[]", self.url, maxsplit=1)[0].rpartition("/")[0]
        is_wanted = re.compile(translate(self.url)).match
        files = Location(fixed).files(recursive=True)
        return [info for info in files if is_wanted(info.location.url)]

    # ---- writing

    def create(self) -> BinaryIO:
        """Open a file for writing; what was there under its name is gone when it is closed."""
        if self.is_local:
            os.makedirs(os.path.dirname(self.url), exist_ok=True)
            return open(self.url, "wb")
        store, path = self.store
        with file_faults(self, "written"):
            if self.renames:
                store.create_dir(path.rpartition("/")[0], recursive=True)
            made: BinaryIO = store.open_output_stream(path, compression=None)
        return made

    def write(self, body: bytes) -> None:
        """Write a file that is there as a whole or not at all, also after a crash."""
        staged = Location(f"{self.url}.part")
        if not self.is_local:
            # An object store shows an object when all of it is there, and a file system at once.
            with (staged if self.renames else self).create() as file:
                file.write(body)
            if self.renames:
                staged.move_to(self)
            return
        os.makedirs(self.path.parent, exist_ok=True)
        write_whole(self.url, body, staged=staged.url)

    def write_new(self, body: bytes) -> bool:
        """Write a file unless there is one already; return whether this one was first."""
        if self.is_local:
            os.makedirs(os.path.dirname(self.url), exist_ok=True)
            staged = Location(f"{self.url}.{os.getpid()}.part")
            staged.write(body)
            try:
                os.link(staged.url, self.url)
            except FileExistsError:
                return False
            finally:
                os.unlink(staged.url)
            sync(self.path.parent)
            return True
        if self.exists():
            return False
        self.write(body)
        return True

    def make_folder(self) -> None:
        if self.is_local:
            os.makedirs(self.url, exist_ok=True)
        elif self.renames:
            store, path = self.store
            store.create_dir(path, recursive=True)

    def move_to(self, target: Location) -> None:
        """Move a file, or where a rename does that in one step, a folder."""
        if self.is_local:
            os.replace(self.url, target.url)
            return
        store, path = self.store
        with file_faults(target, "written"):
            store.move(path, target.store[1])

    def copy_to(self, target: Location) -> None:
        """Copy a file within a store, or from one to another."""
        with file_faults(target), self.open() as source, target.create() as file:
            shutil.copyfileobj(source, file)

    def delete(self) -> None:
        """Remove a file, or a folder with all that is in it; nothing happens if it is not there."""
        if self.is_local:
            if os.path.isdir(self.url) and not os.path.islink(self.url):
                shutil.rmtree(self.url, ignore_errors=True)
            else:
                self.path.unlink(missing_ok=True)
            return
        store, path = self.store
        kind = self._kind()
        with file_faults(self, "written"):
            if kind == "File":
                store.delete_file(path)
            elif kind == "Directory":
                store.delete_dir(path)

    # ---- the store

    @property
    def store(self) -> tuple[Any, str]:
        """pyarrow's file system that this is in, and the path there."""
        if self.is_local:
            return arrow("pyarrow.fs").LocalFileSystem(), self.url
        root, path = _split(self.url)
        return _store_of(root), path

    def _kind(self) -> str:
        fs = arrow("pyarrow.fs")
        store, path = self.store
        with file_faults(self, "read"):
            found = store.get_file_info(path).type
        return "File" if found == fs.FileType.File else (
            "Directory" if found == fs.FileType.Directory else ""
        )  # fmt: skip


def _split(url: str) -> tuple[str, str]:
    """Return the part of a URL that names a store, and the path in there.

    In object stores the bucket is the first part of the path.
    """
    scheme, _, rest = url.partition("://")
    if scheme == "hdfs":
        host, slash, path = rest.partition("/")
        return f"hdfs://{host}", f"{slash}{path}"
    return f"{scheme}://", rest


@lru_cache(maxsize=32)
def _store_of(root: str) -> Any:
    fs = arrow("pyarrow.fs")
    scheme = root.partition("://")[0]
    try:
        if scheme == "s3":
            endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
            options = {"endpoint_override": endpoint} if endpoint else {}
            return fs.S3FileSystem(allow_bucket_creation=False, **options)
        if scheme in ("gs", "abfs", "hdfs"):
            probe = root if scheme == "hdfs" else f"{root}probe/probe"
            return fs.FileSystem.from_uri(probe)[0]
        found = importlib.import_module("fsspec").filesystem(scheme)
        return fs.PyFileSystem(fs.FSSpecHandler(found))
    except (arrow().ArrowException, OSError, ValueError, ImportError) as error:
        raise FlowError(
            f"{root}: there is no such file system here ({error}); give a path, or a URL that "
            "pyarrow or an installed fsspec package knows"
        ) from error


def _local_files(folder: Path, *, recursive: bool) -> list[FileInfo]:
    found: list[FileInfo] = []
    folders = [str(folder)]
    while folders:
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_file():
                    stat = entry.stat()
                    found.append(FileInfo(Location(entry.path), stat.st_size, stat.st_mtime))
                elif recursive and entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    return sorted(found, key=lambda info: info.location.url)


@contextmanager
def file_faults(location: Location | AnyPath, what: str = "written") -> Iterator[None]:
    """Have errors of a disk or store name the file and the remedy."""
    try:
        yield
    except OSError as error:
        said = error.strerror or str(error).strip().splitlines()[0]
        raise FlowError(
            f"{location} can't be {what} ({said}); check its permissions and free space"
        ) from error
