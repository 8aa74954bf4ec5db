"""What the kernel tells of the names in a folder."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shunter.store.sqlite import file_watch
from shunter.store.sqlite.file_watch import FileWatch, WriteAlarm


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / "jobs.db"
    path.write_text("jobs")
    return path


@pytest.fixture
def watch(path: Path) -> Iterator[FileWatch]:
    made = FileWatch(str(path))
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
    lambda path: path.write_text("other jobs"),
    lambda path: os.truncate(path, 2),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_news_once(
    watch: FileWatch, path: Path, change: Callable[[Path], object]
) -> None:
    assert not watch.has_news()

    change(path)

    assert watch.has_news()
    assert not watch.has_news()


def test_what_is_written_to_other_files_is_no_news(path: Path) -> None:
    log = path.with_suffix(".db-wal")
    log.touch()
    watch = FileWatch(str(path))

    with log.open("ab") as file:
        file.write(b"more")
        os.fsync(file.fileno())
    os.truncate(log, 2)

    assert not watch.has_news()
    watch.close()


def test_where_there_is_no_watch_to_be_had_there_always_is_news(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Exhausted:
        def inotify_init1(self, flags: int) -> int:
            return -1

    missing = FileWatch(str(path.with_name("no such file")))
    monkeypatch.setattr(file_watch, "_libc", Exhausted())
    exhausted = FileWatch(str(path))
    monkeypatch.setattr(file_watch, "_libc", object())
    elsewhere = FileWatch(str(path))

    for watch in (missing, exhausted, elsewhere):
        assert watch.has_news()
        assert watch.has_news()
        watch.close()


def test_a_write_ends_the_wait_for_it_and_no_other_does(path: Path) -> None:
    alarm = WriteAlarm(str(path))
    other = path.with_suffix(".other")

    assert not alarm.wait(0.0)
    other.write_text("not this one")
    assert not alarm.wait(0.0)
    path.write_text("more jobs")
    assert alarm.wait(10.0)
    assert not alarm.wait(0.0)
    alarm.close()


def test_a_wait_for_a_write_can_be_ended(path: Path) -> None:
    alarm = WriteAlarm(str(path))
    threading.Timer(0.05, alarm.stop).start()

    assert not alarm.wait(60.0)
    assert not alarm.wait(60.0)
    alarm.close()


def test_who_can_not_be_told_of_writes_says_so(path: Path) -> None:
    alarm = WriteAlarm(str(path.with_name("no such file")))

    assert not alarm.can_tell
    assert not alarm.wait(0.0)
    alarm.close()
