"""What the kernel tells of the names in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shunter.store.sqlite import folder_watch
from shunter.store.sqlite.folder_watch import FolderWatch


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / "jobs.db"
    path.write_text("jobs")
    return path


@pytest.fixture
def watch(path: Path) -> Iterator[FolderWatch]:
    made = FolderWatch(str(path.parent))
    yield made
    made.close()


def _replace(path: Path) -> None:
    other = path.parents[1] / "other"
    other.write_text("jobs")
    os.replace(other, path)


CHANGES: list[Callable[[Path], object]] = [
    Path.unlink,
    lambda path: path.rename(path.parents[1] / "elsewhere"),
    lambda path: path.rename(path.with_suffix(".old")),
    _replace,
    lambda path: path.with_suffix(".new").touch(),
    lambda path: path.parent.rename(path.parents[1] / "elsewhere"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_name_that_changed_is_news_once(
    watch: FolderWatch, path: Path, change: Callable[[Path], object]
) -> None:
    assert not watch.has_news()

    change(path)

    assert watch.has_news()
    assert not watch.has_news()


def test_what_is_written_is_no_news(watch: FolderWatch, path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")
        os.fsync(file.fileno())
        os.truncate(path, 2)

    assert not watch.has_news()


def test_where_there_is_no_watch_to_be_had_there_always_is_news(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Exhausted:
        def inotify_init1(self, flags: int) -> int:
            return -1

    missing = FolderWatch(str(path.parent / "no such folder"))
    monkeypatch.setattr(folder_watch, "_libc", Exhausted())
    exhausted = FolderWatch(str(path.parent))
    monkeypatch.setattr(folder_watch, "_libc", object())
    elsewhere = FolderWatch(str(path.parent))

    for watch in (missing, exhausted, elsewhere):
        assert watch.has_news()
        assert watch.has_news()
        watch.close()
