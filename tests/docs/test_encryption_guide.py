"""What the guide says of encrypted jobs is true: its programs run, against its own app."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import shunter.client.addresses
from docs.pages import Block, blocks_in, expectations, printed_by
from shunter import AesCodec, Client
from system.yard import PATIENCE, Station, Yard

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "encryption.md"
BLOCKS = blocks_in(PAGE)
PROGRAMS = [block for block in BLOCKS if block.file is None]
DEFAULT_FRONTEND = "tcp://127.0.0.1:5560"


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    place = Yard(tmp_path_factory.mktemp("vault"))
    for block in BLOCKS:
        if block.file:
            (place.folder / block.file).write_text(block.code)
    key = place.folder / "k1.key"
    key.touch(0o600)
    key.write_text(AesCodec.new_key() + "\n")
    sys.path.insert(0, str(place.folder))
    yield place
    sys.path.remove(str(place.folder))
    sys.modules.pop("vault", None)
    place.close()


@pytest.fixture(scope="module")
def station(yard: Yard) -> Station:
    station = yard.dispatcher()
    config = yard.config("worker", {"worker.dispatchers": [station.backend]})
    yard.process(("worker", "--app", "vault.py", "--config", str(config)), "worker")
    return station


@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: f"line-{block.line}")
def test_a_program_prints_what_it_says(
    block: Block, yard: Yard, station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(yard.folder)
    monkeypatch.setattr(shunter.client.addresses, "DEFAULT_ADDRESS", station.frontend)
    here = block._replace(code=block.code.replace(DEFAULT_FRONTEND, station.frontend))
    wanted = [
        line.rpartition("  # ")[2]
        for line in block.code.splitlines()
        if line.lstrip().startswith("print(") and "  # " in line
    ]

    assert printed_by(here, {}) == wanted
    assert set(expectations(block.code)) <= set(wanted)


def test_what_the_guide_says_of_sizes_and_refusals_is_so(yard: Yard, station: Station) -> None:
    with Client(station.frontend, timeout=PATIENCE) as client:
        plain = client.submit("greet", "Ada").wait(timeout=PATIENCE)
        assert plain.error is not None
        assert plain.error.kind == "refused"
        assert "came unencrypted" in plain.error.message
    shown = yard.shunter("submit", "greet", "Ada", "--wait", "--app", "vault.py", station=station)
    assert shown.stdout == "hello Ada\n"
