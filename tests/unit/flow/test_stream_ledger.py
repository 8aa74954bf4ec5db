"""What a stream has committed, who may commit, and which files of states count."""

from __future__ import annotations

from pathlib import Path

import pytest

from shunter.errors import FlowError
from shunter.flow.runners.spark.stream.ledger import Commit, Ledger, written
from shunter.flow.runners.spark.stream.states import StateFiles


def commit_of(batch: int) -> Commit:
    return Commit(batch=batch, sinks=written({"out.0": [b"\xff", (1, 2)]}), states={}, counts={})


def owner(folder: Path, token: str) -> Ledger:
    ledger = Ledger(folder, token)
    ledger.take_over()
    return ledger


def test_the_last_commit_is_found_again(tmp_path: Path) -> None:
    ledger = owner(tmp_path, "me")
    assert ledger.last() is None

    with ledger.owned():
        for batch in range(12):
            ledger.keep(commit_of(batch))

    found = Ledger(tmp_path, "another").last()
    assert found == commit_of(11)
    assert found.position("out.0") == [b"\xff", [1, 2]]
    assert len(list((tmp_path / "commits").iterdir())) == 2


def test_who_was_taken_over_commits_nothing(tmp_path: Path) -> None:
    old = owner(tmp_path, "old")
    new = owner(tmp_path, "new")

    with pytest.raises(FlowError, match=r"taken over by new, so this driver \(old\)"), old.owned():
        old.keep(commit_of(7))

    assert new.last() is None
    with new.owned():
        new.keep(commit_of(0))
    assert new.last() == commit_of(0)


def test_a_commit_that_was_not_written_to_its_end_does_not_count(tmp_path: Path) -> None:
    ledger = owner(tmp_path, "me")
    with ledger.owned():
        ledger.keep(commit_of(0))
    (tmp_path / "commits" / "00000001.part").write_bytes(b'{"batch": 1')

    assert ledger.last() == commit_of(0)


def test_states_that_no_commit_names_are_swept(tmp_path: Path) -> None:
    files = StateFiles(str(tmp_path))
    files.make()
    old = files.write(0, "a stage/with ümlauts.0", {"states": [1]})
    tries = [files.write(1, "b.0", {"states": [n]}) for n in range(3)]
    files.write(2, "b.0", {"states": [9]})

    files.sweep({old, tries[1]})

    assert files.read(old) == {"states": [1]}
    assert files.read(tries[1]) == {"states": [1]}
    assert sum(path.is_file() for path in tmp_path.rglob("*")) == 2


def test_an_executor_that_does_not_see_the_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(FlowError, match="a folder that all hosts of the cluster share"):
        StateFiles(str(tmp_path / "elsewhere")).write(0, "b.0", {"states": []})


def test_a_state_that_can_not_be_kept_names_its_worker(tmp_path: Path) -> None:
    files = StateFiles(str(tmp_path))
    files.make()

    with pytest.raises(FlowError, match=r"a state of b\.0 can't be kept"):
        files.write(0, "b.0", {"states": [object()]})
