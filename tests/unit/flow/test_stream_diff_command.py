"""`shunter flow diff`: what it prints, and the exit codes that programs go by."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest
from typer.testing import CliRunner

from shunter.cli.flows import app
from shunter.flow.loader import load
from shunter.flow.location import Location
from shunter.flow.runners.spark.stream.identity import identity_of, keep_identity


def flow_file(folder: Path, *, key: str = "shop", more: str = "") -> str:
    path = folder / "sales.py"
    path.write_text(
        dedent(f"""
        from shunter import Flow
        from shunter.flow import Count
        from shunter.flow.sinks import Collect

        flow = Flow("sales")
        sales = flow.source([], name="sales")
        sales.key_by("{key}").aggregate(name="counted", n=Count()).sink(Collect(), name="out")
        {more}
        """)
    )
    return str(path)


@pytest.mark.parametrize(
    ("changed", "code", "where", "said"),
    [
        ({}, 0, "kept", "the states by key of 'counted'"),
        ({"more": "sales.map(str, name='texts').sink(print)"}, 1, "new", "the map 'texts'"),
        ({"key": "town"}, 2, "refused", "the stage 'counted' has states by key shop, and now it is "
         "by key town"),
    ],
)  # fmt: skip
def test_what_would_become_of_a_checkpoint_is_said(
    changed: dict[str, str], code: int, where: str, said: str, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    keep_identity(identity_of(load(flow_file(tmp_path)), 2), Location.of(kept))
    words = ["diff", flow_file(tmp_path, **changed), "--checkpoints", str(kept)]

    shown = CliRunner().invoke(app, words)
    as_json = CliRunner().invoke(app, [*words, "--json"])

    assert shown.exit_code == as_json.exit_code == code
    assert said in shown.stdout
    assert said in json.loads(as_json.stdout)[where]
    assert sorted(path.name for path in kept.iterdir()) == ["flow.json"]


def test_a_place_without_a_checkpoint_is_told(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["diff", flow_file(tmp_path), "--checkpoints", str(tmp_path / "nothing")]
    )
    assert "there is no checkpoint of a stream" in str(done.exception)
