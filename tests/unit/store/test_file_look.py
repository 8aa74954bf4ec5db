"""Which file a path names, told with and without Python's lock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shunter.store.sqlite import file_look


@pytest.mark.parametrize("look", [file_look.seen_at, file_look._by_stat])
def test_it_is_what_stat_tells(look, tmp_path: Path) -> None:
    path = tmp_path / "jöbs.db"
    assert look(str(path)) is None
    path.write_bytes(b"")
    os.truncate(path, 5_000_000_000)
    told = path.stat()

    seen = look(str(path))

    assert os.makedev(seen.major, seen.minor) == told.st_dev
    assert (seen.inode, seen.size) == (told.st_ino, 5_000_000_000)


def test_it_follows_a_link_and_sees_a_new_file_in_the_place_of_another(tmp_path: Path) -> None:
    path, link, other = tmp_path / "jobs.db", tmp_path / "link", tmp_path / "other"
    path.write_text("jobs")
    link.symlink_to(path)
    other.write_text("jobs")
    before = file_look.seen_at(str(link))

    os.replace(other, path)
    after = file_look.seen_at(str(link))

    assert before.size == after.size
    assert before.inode != after.inode


def test_threads_that_look_at_once_see_each_their_own(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    paths = [tmp_path / str(number) for number in range(4)]
    for number, path in enumerate(paths):
        path.write_bytes(b"x" * number)

    def sizes(path: Path) -> set[int]:
        return {file_look.seen_at(str(path)).size for _ in range(3000)}

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(sizes, paths)) == [{0}, {1}, {2}, {3}]


@pytest.mark.parametrize("look", [file_look.seen_at, file_look._by_stat])
def test_an_opened_file_tells_its_size_whatever_its_path_leads_to(
    look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_look, "seen_at", look)
    path = tmp_path / "jobs.db"
    path.write_bytes(b"jobs")
    opened = file_look.OpenedFile(str(path))

    sizes = [opened.size()]
    os.truncate(path, 5_000_000_000)
    sizes.append(opened.size())
    path.unlink()
    path.write_bytes(b"")
    sizes.append(opened.size())
    opened.close()

    assert sizes == [4, 5_000_000_000, 5_000_000_000]
