"""A file system that behaves as HDFS does through pyarrow, in a folder; there is no HDFS here.

A rename is one step. Onto a file it takes that file's place, after a moment in which there is none;
onto a folder it goes *into* that folder. A file is seen from when it is begun.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from shunter.flow import location


class HdfsLike(fs.FileSystemHandler):
    """What pyarrow asks of a file system, done in a folder of this host."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._disk = str(folder), fs.LocalFileSystem()

    def _at(self, path: str) -> str:
        assert path.startswith("/"), f"{path} is no absolute path, as those of HDFS are"
        return self._folder + path

    def _told(self, info: Any) -> Any:
        path = info.path.removeprefix(self._folder)
        return fs.FileInfo(path, type=info.type, size=info.size, mtime_ns=info.mtime_ns)

    def get_type_name(self) -> str:
        return "hdfs-like"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[Any]:
        return [self._told(each) for each in self._disk.get_file_info([*map(self._at, paths)])]

    def get_file_info_selector(self, selector: Any) -> list[Any]:
        inside = fs.FileSelector(
            self._at(selector.base_dir),
            allow_not_found=selector.allow_not_found,
            recursive=selector.recursive,
        )
        return [self._told(each) for each in self._disk.get_file_info(inside)]

    def create_dir(self, path: str, recursive: bool) -> None:
        self._disk.create_dir(self._at(path), recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self._disk.delete_dir(self._at(path))

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self._disk.delete_dir_contents(self._at(path), missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        raise pa.ArrowNotImplementedError

    def delete_file(self, path: str) -> None:
        self._disk.delete_file(self._at(path))

    def move(self, source: str, target: str) -> None:
        old, new = self._at(source), self._at(target)
        if os.path.isdir(new):
            new = os.path.join(new, os.path.basename(old))
        elif os.path.isfile(new):
            os.unlink(new)
        os.rename(old, new)

    def copy_file(self, source: str, target: str) -> None:
        raise pa.ArrowNotImplementedError

    def open_input_stream(self, path: str) -> Any:
        return self._disk.open_input_stream(self._at(path))

    def open_input_file(self, path: str) -> Any:
        return self._disk.open_input_file(self._at(path))

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        return self._disk.open_output_stream(self._at(path), compression=None)

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise pa.ArrowNotImplementedError


def hdfs_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> location.Location:
    """Let hdfs:// URLs mean a folder of this host, and return one for a sink."""
    folder.mkdir()
    store = fs.PyFileSystem(HdfsLike(folder))
    others = location._store_of
    monkeypatch.setattr(
        location, "_store_of", lambda root: store if root == "hdfs://name" else others(root)
    )
    return location.Location.of("hdfs://name/user/folder/out")
