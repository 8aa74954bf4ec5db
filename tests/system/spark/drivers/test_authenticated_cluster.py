"""Spark's own authentication and encryption pass through, set up as the production guide says.

The secret is where the guide puts it, in `spark-defaults.conf`, and on no command line. A cluster
of its own takes several Java processes, so this is part of `make soak`.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from long_runs import IS_LONG
from shunter.testing.spark_cluster import LocalSparkCluster

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(not IS_LONG, reason="make soak; three Java processes of its own"),
]

FLOW = """
from shunter import Flow
from shunter.flow import Sum
from shunter.flow.sinks import WriteJsonLines
from shunter.flow.sources import Items

flow = Flow("sealed")
by_rest = flow.source(Items(range(1000))).key_by(lambda n: n % 7)
by_rest.aggregate(total=Sum(lambda n: n)).sink(WriteJsonLines("out.jsonl"))
"""
SECRET = secrets.token_hex(16)
SETTINGS = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": SECRET,
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSparkCluster]:
    options = " ".join(f"-D{name}={value}" for name, value in SETTINGS.items())
    folder = tmp_path_factory.mktemp("cluster")
    with LocalSparkCluster(folder, 1, environ={"SPARK_DAEMON_JAVA_OPTS": options}) as started:
        yield started


def run(
    cluster: LocalSparkCluster, folder: Path, settings: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run the flow, with these settings of Spark's in a file of the user's alone."""
    (folder / "flow.py").write_text(FLOW)
    defaults = folder / "conf" / "spark-defaults.conf"
    defaults.parent.mkdir()
    defaults.touch(mode=0o600)
    defaults.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    return subprocess.run(
        [sys.executable, "-m", "shunter", "flow", "run", "--master", cluster.url, "flow.py"],
        cwd=folder,
        env={**os.environ, "SPARK_CONF_DIR": str(defaults.parent), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_a_flow_runs_on_a_cluster_that_wants_a_secret(
    cluster: LocalSparkCluster, tmp_path: Path
) -> None:
    done = run(cluster, tmp_path, SETTINGS)

    assert done.returncode == 0, done.stderr[-3000:]
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    expected = sorted(sum(range(rest, 1000, 7)) for rest in range(7))
    assert sorted(row["total"] for row in rows) == expected
    assert SECRET not in done.stdout + done.stderr


def test_who_has_no_secret_gets_no_executors(cluster: LocalSparkCluster, tmp_path: Path) -> None:
    wrong = {**SETTINGS, "spark.authenticate.secret": "guessed"}

    done = run(cluster, tmp_path, wrong)

    assert done.returncode != 0
    assert not (tmp_path / "out.jsonl").exists()
