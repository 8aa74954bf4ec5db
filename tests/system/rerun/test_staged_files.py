"""Files and directories are published in one step, and an old attempt does no harm."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import shunter.rerun.directories
from shunter.context import Terminated
from shunter.rerun import (
    Owner,
    StagingError,
    Superseded,
    staged_directory,
    staged_file,
    staged_path,
    sweep_files,
)
from shunter.rerun.staging_folder import FOLDER, StagingFolder
from shunter.rerun.staging_names import staging_name

OLD, NEW = Owner("november", "01job", 1), Owner("november", "01job", 2)
OTHER = Owner("november", "02job", 1)

Hook = Callable[[], None]


def names_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def nothing() -> None: ...


def write_file(path: Path, text: str, owner: Owner | str, meanwhile: Hook = nothing) -> None:
    with staged_file(path, run=owner) as file:
        file.write(text)
        meanwhile()


def write_directory(
    path: Path, text: str, owner: Owner, meanwhile: Hook = nothing, *, allow_gap: bool = False
) -> None:
    with staged_directory(path, run=owner, allow_gap=allow_gap) as staging:
        (staging / text).write_text(text)
        meanwhile()


def raising(error: type[BaseException]) -> Hook:
    def hook() -> None:
        raise error

    return hook


# ---- files


def test_a_file_is_there_at_the_end_of_the_block_and_not_before(tmp_path: Path) -> None:
    target = tmp_path / "report.csv"

    with staged_file(target, run=NEW) as file:
        file.write("a;b\n")
        file.flush()
        assert not target.exists()

    assert target.read_text() == "a;b\n"
    assert names_in(tmp_path) == ["report.csv"]


def test_bytes_and_text_are_written_as_asked(tmp_path: Path) -> None:
    with staged_file(tmp_path / "bytes", "wb", run=NEW) as raw:
        raw.write(b"\x00\xff")
    with staged_file(tmp_path / "text", encoding="latin-1", newline="\r\n", run=NEW) as text:
        text.write("ü\n")

    assert (tmp_path / "bytes").read_bytes() == b"\x00\xff"
    assert (tmp_path / "text").read_bytes() == b"\xfc\r\n"


def test_a_program_that_wants_a_path_gets_one_with_the_same_ending(tmp_path: Path) -> None:
    with staged_path(tmp_path / "report.csv", run=NEW) as path:
        assert path.suffix == ".csv"
        subprocess.run(["cp", sys.executable, path], check=True)

    assert (tmp_path / "report.csv").read_bytes() == Path(sys.executable).read_bytes()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, Terminated])
def test_an_exception_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    target = tmp_path / "report"
    target.write_text("old")

    with pytest.raises(error):
        write_file(target, "half", NEW, raising(error))

    assert target.read_text() == "old"
    assert names_in(tmp_path) == ["report"]


def test_the_new_file_is_open_to_whom_the_old_one_was(tmp_path: Path) -> None:
    target = tmp_path / "report"
    target.write_text("old")
    target.chmod(0o640)

    with staged_file(target, run=NEW) as file:
        file.write("new")

    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_link_stays_one_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real/report")

    with staged_file(tmp_path / "link", run=NEW) as file:
        file.write("new")

    assert (tmp_path / "link").is_symlink()
    assert names_in(tmp_path) == ["link", "real", "real/report"]


def test_an_old_attempt_fails_to_publish_once_a_new_one_has_begun(tmp_path: Path) -> None:
    target = tmp_path / "report"

    with pytest.raises(Superseded, match="attempt 1 published nothing") as caught:
        write_file(target, "old", OLD, lambda: write_file(target, "new", NEW))

    assert caught.value.attempt == 1
    assert target.read_text() == "new"
    assert names_in(tmp_path) == ["report"]


def test_an_old_attempt_that_only_now_begins_gives_way_to_a_new_one(tmp_path: Path) -> None:
    target = tmp_path / "report"

    with staged_file(target, run=NEW) as new:
        new.write("new")
        with pytest.raises(Superseded, match="attempt 2 stages the same"):
            write_file(target, "old", OLD)

    assert target.read_text() == "new"


def test_of_two_attempts_that_begin_at_once_one_sees_the_other(tmp_path: Path) -> None:
    target = tmp_path / "report"
    newer = staged_file(target, run=NEW)

    def create(place: Path) -> None:
        newer.__enter__()
        place.touch()

    with pytest.raises(Superseded, match="attempt 2 stages the same"):
        StagingFolder(target).opened(OLD, create)
    newer.__exit__(None, None, None)

    assert names_in(tmp_path) == ["report"]


def test_two_starts_of_a_script_under_one_name_don_t_mix(tmp_path: Path) -> None:
    target = tmp_path / "report"

    with pytest.raises(Superseded):
        write_file(target, "first", "nightly", lambda: write_file(target, "second", "nightly"))

    assert target.read_text() == "second"


def test_two_jobs_of_one_run_don_t_disturb_each_other(tmp_path: Path) -> None:
    target = tmp_path / "report"

    with staged_file(target, run=OLD) as one, staged_file(target, run=OTHER) as other:
        one.write("one")
        other.write("other")

    assert target.read_text() == "one"
    assert names_in(tmp_path) == ["report"]


def test_many_at_once_keep_the_folder_they_share(tmp_path: Path) -> None:
    errors = []

    def work(number: int) -> None:
        try:
            for _ in range(50):
                with staged_file(tmp_path / f"{number}", run=Owner("r", f"{number}", 1)) as file:
                    file.write("x")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert names_in(tmp_path) == ["0", "1", "2", "3"]


def test_others_who_may_write_beside_the_target_may_stage_there_too(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)

    with staged_file(tmp_path / "report", run=NEW):
        assert stat.S_IMODE((tmp_path / FOLDER).stat().st_mode) == 0o770


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda folder: staged_file(folder / "no" / "x", run=NEW), "make it first"),
        (lambda folder: staged_file(folder, run=NEW), "use staged_directory"),
        (lambda folder: staged_file(folder / "x", "a", run=NEW), "'w' or 'wb'"),
        (lambda folder: staged_file(folder / "x"), "pass run="),
        (lambda folder: staged_directory(folder / "file", run=NEW), "use staged_file"),
    ],
)
def test_bad_input_is_refused_with_the_remedy(
    tmp_path: Path, call: Callable[[Path], staged_file], remedy: str
) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StagingError, match=remedy), call(tmp_path):
        raise AssertionError("must not begin")

    assert names_in(tmp_path) == ["file"]


# ---- directories


@pytest.fixture(params=["exchanged", "in two steps"])
def gap(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Disks that can exchange two directories, and disks that can't."""
    if request.param == "in two steps":
        monkeypatch.setattr(shunter.rerun.directories, "exchange", lambda *_: False)
    return True


def test_a_directory_is_made_and_replaced(tmp_path: Path, gap: bool) -> None:
    target = tmp_path / "site"

    write_directory(target, "one", NEW)
    assert names_in(tmp_path) == ["site", "site/one"]
    target.chmod(0o750)
    write_directory(target, "two", NEW, allow_gap=gap)

    assert names_in(tmp_path) == ["site", "site/two"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o750


def test_while_directories_are_exchanged_there_is_always_a_whole_one(tmp_path: Path) -> None:
    target = tmp_path / "site"
    write_directory(target, "text", NEW)
    torn: list[str] = []
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            descriptor = os.open(target, os.O_RDONLY)
            try:
                torn.extend(name for name in os.listdir(descriptor) if name != "text")
            finally:
                os.close(descriptor)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(100):
            write_directory(target, "text", NEW)
        assert reader.is_alive(), "a reader found no directory"
    finally:
        is_over.set()
        reader.join()

    assert torn == []


def test_a_disk_that_can_t_exchange_is_refused_unless_the_gap_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shunter.rerun.directories, "exchange", lambda *_: False)
    write_directory(tmp_path / "site", "one", NEW)

    with pytest.raises(StagingError, match="allow_gap=True"):
        write_directory(tmp_path / "site", "two", NEW)

    assert names_in(tmp_path) == ["site", "site/one"]


def test_an_exception_leaves_the_old_directory(tmp_path: Path) -> None:
    write_directory(tmp_path / "site", "one", NEW)

    with pytest.raises(ZeroDivisionError):
        write_directory(tmp_path / "site", "two", NEW, raising(ZeroDivisionError))

    assert names_in(tmp_path) == ["site", "site/one"]


def test_an_old_attempt_does_no_harm_to_a_directory(tmp_path: Path, gap: bool) -> None:
    target = tmp_path / "site"

    with pytest.raises(Superseded):
        write_directory(
            target, "old", OLD, lambda: write_directory(target, "new", NEW), allow_gap=gap
        )

    assert names_in(tmp_path) == ["site", "site/new"]


def test_a_run_that_died_in_the_gap_gets_the_old_directory_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shunter.rerun.directories, "exchange", lambda *_: False)
    target = tmp_path / "site"
    write_directory(target, "one", OLD)
    name = staging_name("site", OLD, opened=1.0, unique=1)
    (tmp_path / FOLDER / name).mkdir(parents=True)
    target.rename(tmp_path / FOLDER / name.replace("staging_", "aside_"))

    with staged_directory(target, run=NEW, allow_gap=True) as staging:
        assert (target / "one").exists()
        (staging / "two").write_text("two")

    assert names_in(tmp_path) == ["site", "site/two"]


def test_a_directory_is_out_of_reach_before_any_of_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, seen = tmp_path / "site", []
    rmtree = shutil.rmtree

    def removing(path: Path) -> None:
        seen.append((path.name.partition("_")[0], sorted(os.listdir(tmp_path / FOLDER))))
        rmtree(path)

    monkeypatch.setattr(shutil, "rmtree", removing)
    with pytest.raises(Superseded):
        write_directory(target, "old", OLD, lambda: write_directory(target, "new", NEW))

    [(kind, names)] = seen
    assert kind == "dropped"
    assert [name.partition("_")[0] for name in names] == ["dropped", "staging"]


def test_a_directory_in_which_an_old_attempt_still_writes_can_be_dropped(tmp_path: Path) -> None:
    target = tmp_path / "site"
    is_over = threading.Event()

    def keep_writing(folder: int) -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            try:
                os.close(os.open(f"{number}", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
            except OSError:
                return

    def overtaken() -> None:
        with staged_directory(target, run=OLD) as old:
            descriptor = os.open(old, os.O_RDONLY)
            writer = threading.Thread(target=keep_writing, args=(descriptor,))
            writer.start()
            try:
                write_directory(target, "new", NEW)
            finally:
                is_over.set()
                writer.join()
                os.close(descriptor)

    with pytest.raises(Superseded):
        overtaken()

    sweep_files(tmp_path, older_than=3600)
    assert names_in(tmp_path) == ["site", "site/new"]


# ---- sweeping


def leftover(folder: Path, *, opened: float, written: float, is_directory: bool = False) -> Path:
    name = staging_name("report", OTHER, opened=opened, unique=int(opened))
    path = folder / FOLDER / name
    path.parent.mkdir(exist_ok=True)
    if is_directory:
        path.mkdir()
        (path / "inside").write_text("x")
        os.utime(path / "inside", (written, written))
        os.utime(path, (0, 0))
    else:
        path.write_text("x")
        os.utime(path, (written, written))
    return path


@pytest.mark.parametrize("is_directory", [False, True])
def test_sweeping_takes_what_is_old_and_spares_what_is_young_or_still_written(
    tmp_path: Path, is_directory: bool
) -> None:
    now = time.time()
    old = leftover(tmp_path, opened=now - 7200, written=now - 7200, is_directory=is_directory)
    young = leftover(tmp_path, opened=now - 60, written=now - 60, is_directory=is_directory)
    busy = leftover(tmp_path, opened=now - 7300, written=now - 5, is_directory=is_directory)
    (tmp_path / FOLDER / "of the user").write_text("")

    assert sweep_files(tmp_path, older_than=3600) == [old.name]

    assert sorted(path.name for path in (tmp_path / FOLDER).iterdir()) == sorted(
        [young.name, busy.name, "of the user"]
    )


def test_the_folder_goes_with_the_last_leftover(tmp_path: Path) -> None:
    leftover(tmp_path, opened=1000, written=1000)

    sweep_files(tmp_path, older_than=3600)

    assert names_in(tmp_path) == []
    assert sweep_files(tmp_path, older_than=3600) == []
