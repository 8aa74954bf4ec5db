"""Where checkpoints are kept: a folder, SQLite, MongoDB; the same promises for each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.errors import FlowError
from shunter.flow.runners.checkpoint_stores import checkpoints_at
from shunter.flow.runtime.checkpoint import Checkpoint, CheckpointStore, check_fits
from shunter.testing.mongod import LocalMongod

Opened = Callable[[str], CheckpointStore]


@pytest.fixture(params=["folder", "sqlite", "mongodb"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Return what opens the checkpoints of a flow."""
    if request.param == "folder":
        return lambda flow: checkpoints_at(str(tmp_path / flow), flow)
    if request.param == "sqlite":
        return lambda flow: checkpoints_at(f"sqlite:///{tmp_path}/kept.db", flow)
    server: LocalMongod = request.getfixturevalue("mongod")
    return lambda flow: checkpoints_at(server.url(f"kept-{tmp_path.name[-20:]}"), flow)


def kept(number: int, **snapshots: object) -> Checkpoint:
    return Checkpoint(number, "fingerprint", 2, snapshots)


def test_the_newest_is_found_by_whoever_opens_it(opened: Opened) -> None:
    first = opened("f")
    assert first.latest() is None
    for number in (1, 2, 3):
        first.keep(kept(number, worker={"at": number, "bytes": b"\x00"}))

    assert opened("f").latest() == kept(3, worker={"at": 3, "bytes": b"\x00"})


def test_flows_have_their_own(opened: Opened) -> None:
    opened("f").keep(kept(1))
    opened("g").keep(kept(7))

    opened("f").clear()

    assert opened("f").latest() is None
    assert opened("g").latest() == kept(7)


def test_a_large_one_is_kept(opened: Opened) -> None:
    large = kept(1, worker=b"x" * 20_000_000)
    opened("f").keep(large)

    assert opened("f").latest() == large


def test_a_checkpoint_must_be_of_this_flow_and_of_as_many_nodes() -> None:
    check_fits(kept(1), "fingerprint", 2)
    with pytest.raises(FlowError, match="another version of this flow"):
        check_fits(kept(1), "another", 2)
    with pytest.raises(FlowError, match=r"of 2 engines, not 3.*--engines 2"):
        check_fits(kept(1), "fingerprint", 3)
    with pytest.raises(FlowError, match="version 99"):
        check_fits(Checkpoint(1, "fingerprint", 2, {}, version=99), "fingerprint", 2)


def test_what_can_not_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for where in (str(tmp_path / "file" / "in"), f"sqlite:///{tmp_path}/no/where.db", "ftp://x/y"):
        with pytest.raises(FlowError, match="checkpoint"):
            checkpoints_at(where, "f")


def test_a_damaged_one_is_named(tmp_path: Path) -> None:
    checkpoints_at(str(tmp_path), "f").keep(kept(1))
    (tmp_path / "00000001.checkpoint").write_bytes(b"\xc1")

    with pytest.raises(FlowError, match=r"00000001\.checkpoint can't be read.*delete it"):
        checkpoints_at(str(tmp_path), "f").latest()
