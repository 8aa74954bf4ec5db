"""Flows on engines: real processes, killed and cut off, and nothing missing or double."""

from __future__ import annotations

import os
import random
import time
from functools import partial
from pathlib import Path

import pytest
import zmq

from shunter.errors import FlowError
from shunter.flow.flow import Flow
from shunter.flow.loader import load
from shunter.flow.runners.checkpoint_folder import Checkpoints
from shunter.flow.runners.engines import messages
from shunter.flow.runners.engines.deployer import ANSWER_SECONDS, EngineConnection, FlowRun
from shunter.flow.runners.engines.local_engines import LocalEngines
from shunter.flow.runners.port import CheckpointKept, Stopped
from system.elsewhere import elsewhere
from system.flow.engines import (
    COUNTING,
    EngineProcess,
    InBackground,
    engines,
    is_complete,
    numbers_file,
    sums_in,
)
from system.yard import PATIENCE, until


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLOW_FOLDER", str(tmp_path))
    return tmp_path


def _is_under_way(run: FlowRun) -> bool:
    return bool(run.stages) and run.stages[-1].taken > 0


def _is_over(run: FlowRun, restarts: int, background: InBackground) -> bool:
    """True if it has noticed the loss of an engine, or is done."""
    return run.restarts > restarts or not background.is_alive()


def counting() -> Flow:
    return load(COUNTING)


@pytest.mark.parametrize("count", [1, 3])
def test_a_flow_runs_on_engines(folder: Path, count: int) -> None:
    numbers_file(folder, 4_000)
    with engines(folder, count) as started:
        run = FlowRun(counting(), COUNTING, [each.endpoint for each in started])
        stages = {stage.name: stage for stage in run.run()}

    assert is_complete(sums_in(folder), 4_000)
    assert stages["numbers"].given == stages["out"].taken == 4_000


def test_workers_in_one_process_use_a_queue_and_those_on_one_host_ipc(folder: Path) -> None:
    numbers_file(folder, 100)
    with engines(folder, 2) as started:
        run = FlowRun(counting(), COUNTING, [each.endpoint for each in started])
        run.run()

    assert run.ways["0"] == {
        "slowly.0": "queue",
        "slowly.1": "ipc",
        "sums.0": "queue",
        "sums.1": "ipc",
    }
    assert run.ways["1"] == {"sums.0": "ipc", "sums.1": "queue"}


def test_workers_on_different_hosts_use_tcp(folder: Path) -> None:
    numbers_file(folder, 4_000)
    with elsewhere() as host:
        cable = host.cables[0]
        network = f"{cable.here.rpartition('.')[0]}.0/30"
        here = EngineProcess(folder, 0, 2, listen=f"tcp://{cable.here}:*")
        there = EngineProcess(folder, 1, 2, listen=f"tcp://{cable.there}:*", inside=host.inside)
        try:
            endpoints = [here.endpoint, there.endpoint]
            run = FlowRun(counting(), COUNTING, endpoints, network=network)
            run.run()
        finally:
            here.kill()
            there.kill()

    assert is_complete(sums_in(folder), 4_000)
    assert run.ways["1"] == {"sums.0": "tcp", "sums.1": "queue"}


def test_a_cable_that_is_cut_for_a_while_loses_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOW_PAUSE", "0.05")
    numbers_file(folder, 5_000)
    with elsewhere() as host:
        cable = host.cables[0]
        network = f"{cable.here.rpartition('.')[0]}.0/30"
        here = EngineProcess(folder, 0, 2, listen=f"tcp://{cable.here}:*")
        there = EngineProcess(folder, 1, 2, listen=f"tcp://{cable.there}:*", inside=host.inside)
        try:
            endpoints = [here.endpoint, there.endpoint]
            run = FlowRun(counting(), COUNTING, endpoints, network=network)
            background = InBackground(run.run)
            until(lambda: run.stages and run.stages[-1].taken > 500)
            for _ in range(3):
                cable.cut()
                time.sleep(0.7)
                cable.mend()
                time.sleep(0.3)
            background.outcome(60)
        finally:
            here.kill()
            there.kill()

    assert is_complete(sums_in(folder), 5_000)
    assert run.restarts == 0


def test_engines_killed_again_and_again_leave_nothing_missing_and_nothing_double(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = int(os.environ.get("SHUNTER_EVENTS", "20000"))
    monkeypatch.setenv("FLOW_PAUSE", "0.04")
    numbers_file(folder, count)
    chosen = random.Random(7)
    with LocalEngines(2, folder) as started:
        run = FlowRun(
            counting(),
            COUNTING,
            started.endpoints,
            checkpoints=Checkpoints(folder / "checkpoints"),
            every=0.3,
            keeper=started,
        )
        background = InBackground(run.run)
        kills = 0
        while background.is_alive() and kills < 4:
            before = run.restarts
            until(lambda: _is_under_way(run) or not background.is_alive())
            background.join(chosen.uniform(0.8, 2.0))
            if background.is_alive():
                started.processes[chosen.randrange(2)].kill()
                kills += 1
                until(partial(_is_over, run, before, background))
        background.outcome(120)

    assert kills >= 3
    assert run.restarts >= kills
    assert is_complete(sums_in(folder), count)
    assert not list((folder / "checkpoints").glob("*.checkpoint"))


def test_a_deployer_that_is_gone_leaves_a_checkpoint_for_the_next_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOW_PAUSE", "0.05")
    numbers_file(folder, 5_000)
    checkpoints = Checkpoints(folder / "checkpoints")
    told: list[CheckpointKept] = []
    with engines(folder, 2) as started:
        endpoints = [each.endpoint for each in started]
        first = FlowRun(
            counting(), COUNTING, endpoints, checkpoints=checkpoints, every=0.2,
            on_kept=told.append, should_stop=lambda: checkpoints.latest() is not None,
        )  # fmt: skip
        with pytest.raises(Stopped):
            first.run()
        kept = checkpoints.latest()
        assert kept is not None
        assert [each.number for each in told] == [kept.number]
        assert 0 < told[0].seconds < 30
        assert not list(folder.glob("sums*.jsonl"))

        FlowRun(counting(), COUNTING, endpoints, checkpoints=checkpoints, every=0.2).run()

    assert is_complete(sums_in(folder), 5_000)


def test_a_checkpoint_of_another_flow_is_refused_and_left_alone(folder: Path) -> None:
    numbers_file(folder, 100)
    checkpoints = Checkpoints(folder / "checkpoints")
    other = Flow("other")
    other.source([1]).sink(print)
    from shunter.flow.runtime.checkpoint import Checkpoint

    checkpoints.keep(Checkpoint(3, other.fingerprint(), 1, {}))
    with engines(folder, 1) as started:
        run = FlowRun(counting(), COUNTING, [started[0].endpoint], checkpoints=checkpoints)
        with pytest.raises(FlowError, match="another version of this flow"):
            run.run()

    assert checkpoints.latest() is not None


# ---- what is refused


def test_node_numbers_must_be_whole(folder: Path) -> None:
    with engines(folder, 1) as alone:
        twin = EngineProcess(folder, 0, 2)
        try:
            run = FlowRun(counting(), COUNTING, [alone[0].endpoint, twin.endpoint])
            with pytest.raises(FlowError) as caught:
                run.run()
        finally:
            twin.kill()

    said = str(caught.value)
    assert "nobody is node 1" in said
    assert "several are node 0" in said
    assert "--nodes 2" in said


def test_an_engine_that_is_not_there_is_named_with_what_to_start() -> None:
    run = FlowRun(counting(), COUNTING, ["tcp://127.0.0.1:9"])
    run_within = time.monotonic()

    with pytest.raises(FlowError, match="shunter engine --node 0 --nodes 1"):
        run.run()
    assert time.monotonic() - run_within < 2 * ANSWER_SECONDS


def test_an_engine_with_another_version_of_the_file_refuses_it(folder: Path) -> None:
    ours, theirs = folder / "ours.py", folder / "flow.py"
    text = "from shunter import Flow\nflow = Flow('f')\nflow.source([1]).sink(print)\n"
    ours.write_text(text)
    theirs.write_text(text + "# changed\n")
    with engines(folder, 1) as started:
        run = FlowRun(load(str(ours)), str(theirs), [started[0].endpoint])
        with pytest.raises(FlowError, match="another version of flow 'f'"):
            run.run()


def test_a_file_that_fails_to_import_is_told_and_the_engine_lives_on(folder: Path) -> None:
    broken = folder / "broken.py"
    broken.write_text("import nothing_of_that_name\n")
    numbers_file(folder, 1000)
    with engines(folder, 1) as started:
        with pytest.raises(FlowError, match="nothing_of_that_name"):
            FlowRun(counting(), str(broken), [started[0].endpoint]).run()
        FlowRun(counting(), COUNTING, [started[0].endpoint]).run()

    assert is_complete(sums_in(folder), 1000)


def test_a_bad_event_stops_the_run_with_the_users_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers_file(folder, 1000)
    monkeypatch.setenv("FLOW_FAIL", "500")
    with engines(folder, 2) as started:
        endpoints = [each.endpoint for each in started]
        with pytest.raises(FlowError) as caught:
            FlowRun(counting(), COUNTING, endpoints).run()

    assert "stage 'slowly'" in str(caught.value)
    assert "at the event 500" in str(caught.value)
    assert "counting_flow.py" in str(caught.value)
    assert not list(folder.glob("sums*.jsonl"))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\xc1", "not understood"),
        (messages.encoded({"do": "dance"}), "not understood"),
        (messages.encoded(messages.EngineHello(version=99)), "version 99 and this engine 1"),
        (messages.encoded(messages.Start(run="no")), "run 'no' is not on node 0"),
    ],
    ids=["noise", "unknown", "version", "unknown run"],
)
def test_a_request_that_makes_no_sense_is_answered_and_the_engine_lives_on(
    folder: Path, message: bytes, reason: str
) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with engines(folder, 1) as started:
        engine = EngineConnection(context, started[0].endpoint, 0)
        engine.socket.send(message)
        assert engine.socket.poll(5000)
        answer = messages.reply(engine.socket.recv())
        assert isinstance(answer, messages.EngineAnswer)
        assert reason in str(answer.error)
        assert engine.ask(messages.EngineHello())["node"] == 0
        engine.ask(messages.ShutDown())
        until(lambda: started[0].process.poll() is not None)
        engine.close()
    context.term()
    assert started[0].process.returncode == 0


def test_noise_at_an_inbox_is_refused_and_the_flow_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOW_PAUSE", "0.05")
    numbers_file(folder, 5_000)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with engines(folder, 2) as started:
        run = FlowRun(counting(), COUNTING, [each.endpoint for each in started])
        background = InBackground(run.run)
        until(lambda: run.stages and run.stages[-1].taken > 0)
        ports = {int(path.name.removeprefix("inbox_")) for path in _ipc_folder().glob("inbox_*")}
        for port in ports:
            socket = context.socket(zmq.DEALER)
            socket.setsockopt(zmq.LINGER, 200)
            socket.connect(f"tcp://127.0.0.1:{port}")
            stranger = messages.encoded(["stranger", 0, 1, 1, "", None])
            nested = b"\x91" * 100_000 + b"\x01"
            socket.send(b"noise")
            socket.send_multipart([b"guessed" * 3, stranger, b"\x91\x01"])
            socket.send_multipart([run._token, b"\xc1", b"noise"])
            socket.send_multipart([run._token, stranger, b"\x91\x01"])
            socket.send_multipart([run._token, nested, b""])
            for sender in {name for worker in run.plan.workers for name in worker.senders}:
                forged = messages.encoded([sender, 0, 1, 1_000_000, "", None])
                socket.send_multipart([b"", forged, b"\x91\x01"])
            socket.close()
        background.outcome(60)
        said = "".join(each.log.read_text() for each in started)
    context.term()

    assert is_complete(sums_in(folder), 5_000)
    assert "an envelope was refused" in said
    assert "'stranger', which does not send here" in said
    assert "it does not show the token of this run" in said


def _ipc_folder() -> Path:
    from shunter.flow.runners.engines.network import ipc_endpoint

    return Path(ipc_endpoint("127.0.0.1", 1).removeprefix("ipc://")).parent


# ---- the management interface


def test_a_flow_that_is_quiesced_ends_with_what_was_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOW_PAUSE", "0.05")
    numbers_file(folder, 100_000)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with engines(folder, 2) as started:
        run = FlowRun(counting(), COUNTING, [each.endpoint for each in started])
        background = InBackground(run.run)
        until(lambda: _is_under_way(run))
        connections = [EngineConnection(context, each.endpoint, 0) for each in started]
        for connection in connections:
            run_id = connection.ask(messages.EngineStatus())["run"]
            connection.ask(messages.Quiesce(run=run_id))
            connection.close()
        stages = {stage.name: stage for stage in background.outcome(PATIENCE)}
    context.term()

    assert 0 < stages["out"].taken == stages["numbers"].given < 100_000
    assert sum(map(len, sums_in(folder).values())) == stages["out"].taken


def test_two_deployers_do_not_share_an_engine(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later one has it, and the earlier one is told."""
    monkeypatch.setenv("FLOW_PAUSE", "0.05")
    numbers_file(folder, 5_000)
    with engines(folder, 1) as started:
        first = FlowRun(counting(), COUNTING, [started[0].endpoint])
        background = InBackground(first.run)
        until(lambda: _is_under_way(first))

        FlowRun(counting(), COUNTING, [started[0].endpoint]).run()

        with pytest.raises(FlowError, match=r"another run has taken over|is not on node"):
            background.outcome(PATIENCE)
    assert is_complete(sums_in(folder), 5_000)


def test_a_function_that_never_returns_does_not_outlive_its_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOW_PAUSE", "3600")
    numbers_file(folder, 1000)
    is_over = False
    with engines(folder, 1) as started:
        run = FlowRun(
            counting(), COUNTING, [started[0].endpoint], should_stop=lambda: is_over
        )  # fmt: skip
        background = InBackground(run.run)
        until(lambda: run.stages)
        is_over = True
        with pytest.raises(Stopped):
            background.outcome(PATIENCE)

        until(lambda: started[0].process.poll() is not None)
        assert "does not return; the engine ends" in started[0].log.read_text()
