"""An engine that others reach wants the key that it shares with its deployer, and known folders."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import zmq

from shunter.errors import FlowError
from shunter.flow.runners.engines.deployer import EngineConnection
from shunter.flow.runners.engines.messages import EngineHello
from shunter.key_file import engine_pair
from system import fork_server
from system.yard import Yard, free_port, until

FLOW = """
from shunter import Flow
from shunter.flow.sinks import WriteJsonLines
from shunter.flow.sources import Items

flow = Flow("small")
flow.source(Items(range(100))).map(lambda n: n + 1).sink(WriteJsonLines({out!r}), workers=1)
"""


class Engines:
    """One engine with a key, and what it takes to run a flow on it."""

    def __init__(self, yard: Yard) -> None:
        self.yard, self.store = yard, f"sqlite:///{yard.folder}/keys.db"
        self.allowed, self.elsewhere = yard.folder / "flows", yard.folder / "elsewhere"
        for folder in (self.allowed, self.elsewhere):
            folder.mkdir()
            (folder / "small.py").write_text(FLOW.format(out=str(folder / "out.jsonl")))
        for name, role in (("d", "dispatcher"), ("engines", "worker"), ("thief", "worker")):
            self.key("new", name, "--role", role, "--out", str(self.file(name)))
        self.address = f"tcp://127.0.0.1:{free_port()}"
        words = ("engine", "--node", "0", "--nodes", "1", "--listen", self.address)
        config = yard.config(
            "engine", {"store.url": self.store, "auth.key_file": str(self.file("engines"))}
        )
        words = (*words, "--flows", str(self.allowed), "--config", str(config))
        self.process = yard.process(words, "engine")

    def env(self, key: str | None) -> dict[str, str]:
        named = {"SHUNTER__AUTH__KEY_FILE": str(self.file(key))} if key else {}
        return {"SHUNTER__STORE__URL": self.store, **named}

    def file(self, name: str) -> Path:
        return self.yard.folder / f"{name}.key"

    def key(self, *words: str) -> None:
        done = self.yard.shunter("key", *words, "--store", self.store)
        assert done.returncode == 0, done.stderr

    def run(self, folder: Path, key: str | None) -> subprocess.CompletedProcess[str]:
        words = ("flow", "run", "--on", "engines", "--engine", self.address, "small.py")
        return fork_server.run(words, folder=folder, within=100, environ=self.env(key))


@pytest.fixture(scope="module")
def engines(shared_yard: Yard) -> Engines:
    return Engines(shared_yard)


def test_a_flow_runs_on_an_engine_with_its_key(engines: Engines) -> None:
    done = engines.run(engines.allowed, "engines")

    assert done.returncode == 0, done.stderr + engines.process.errors.read_text()
    lines = (engines.allowed / "out.jsonl").read_text().split()
    assert sorted(map(int, lines)) == list(range(1, 101))


def test_an_engine_takes_no_flow_from_another_folder(engines: Engines) -> None:
    done = engines.run(engines.elsewhere, "engines")

    assert done.returncode != 0
    assert "is in no folder that this engine takes flows from" in done.stderr
    assert not (engines.elsewhere / "out.jsonl").exists()


def test_an_engine_answers_nobody_with_another_key_or_none(engines: Engines) -> None:
    with ThreadPoolExecutor() as at_once:
        tried = list(at_once.map(partial(engines.run, engines.allowed), [None, "thief"]))

    assert all(done.returncode != 0 for done in tried)
    assert all("no engine answers" in done.stderr for done in tried)


def test_engines_whose_key_is_revoked_refuse_their_deployer(engines: Engines) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    pair = engine_pair(str(engines.file("engines")))
    open_before = EngineConnection(context, engines.address, 0, curve=pair)
    try:
        assert open_before.ask(EngineHello())["node"] == 0

        engines.key("revoke", "engines")

        def refusal() -> str:
            try:
                open_before.ask(EngineHello())
            except FlowError as error:
                return str(error)
            return ""

        assert "the key of these engines was revoked" in until(refusal)
    finally:
        open_before.close()
        context.term()
    assert engines.run(engines.allowed, "engines").returncode != 0


def test_an_engine_with_a_key_that_is_revoked_does_not_start(engines: Engines) -> None:
    """After the last one, which revoked it."""
    config = engines.yard.folder / "engine.toml"
    where = f"tcp://127.0.0.1:{free_port()}"

    done = engines.yard.shunter(
        "engine", "--node", "0", "--nodes", "1", "--listen", where, "--config", str(config)
    )

    assert done.returncode == 2
    assert "a key that is not in the list (the store)" in done.stderr


def test_an_engine_that_others_reach_needs_a_key(yard: Yard) -> None:
    done = yard.shunter("engine", "--node", "0", "--nodes", "1", "--listen", "tcp://127.0.0.1:0")

    assert done.returncode == 2
    assert "give all engines and their deployer one key (auth.key_file)" in done.stderr
