"""Engines that outlive runs, and checkpoints of what goes on changing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from shunter.errors import FlowError
from shunter.flow.graph.instructions import END_OF_STREAM, Instruction
from shunter.flow.loader import load
from shunter.flow.runners.checkpoint_folder import Checkpoints
from shunter.flow.runners.engines.deployer import FlowRun
from shunter.flow.runners.engines.deployment import Deployment
from shunter.flow.runners.engines.links import LinkEnvelope, LinkReceipt
from shunter.flow.runners.port import LOOPBACK
from shunter.flow.runtime.checkpoint import Checkpoint
from shunter.flow.runtime.plan import planned
from system import fork_server
from system.flow.engines import engines

CHANGING = """
from shunter import Flow

def note(_):
    with open({folder!r} + "/noted", "a") as file:
        file.write({word!r})

flow = Flow("changing")
flow.source([1]).sink(note)
"""

UNWILLING = """
from shunter import Flow

class Unwilling:
    def __init__(self):
        raise KeyError("no such setting")

    def on_event(self, event):
        return event

flow = Flow("unwilling")
flow.source([1]).stateful(Unwilling).sink(print)
"""

GATHERING = """
from shunter import Flow

class Gathers:
    def __init__(self):
        self.seen = []

    def on_event(self, number):
        self.seen.append(number)
        del self.seen[:-100]

def modulo(number):
    return number % 3

flow = Flow("gathering")
few = flow.source([1], name="few")
many = flow.source(range(1_500_000), name="many")
flow.merge(few, many).key_by(modulo).stateful(Gathers, any_order=True).sink(print)
"""


def written(folder: Path, text: str) -> str:
    path = folder / "written_flow.py"
    path.write_text(text)
    return str(path)


def test_a_file_that_has_changed_is_loaded_anew(tmp_path: Path) -> None:
    with engines(tmp_path, 1) as started:
        for word in ("old ", "new "):
            path = written(tmp_path, CHANGING.format(folder=str(tmp_path), word=word))
            words = ["flow", "run", path, "--json", "--on", "engines"]
            words += ["--engine", started[0].endpoint]
            assert fork_server.run(words, folder=tmp_path, within=60).returncode == 0

    assert (tmp_path / "noted").read_text() == "old new "


def test_a_class_that_can_not_be_made_is_told_and_the_engine_lives_on(tmp_path: Path) -> None:
    path = written(tmp_path, UNWILLING)
    with engines(tmp_path, 1) as started:
        for _ in range(2):
            with pytest.raises(FlowError, match=r"no such setting[^$]*written_flow.py"):
                FlowRun(load(path), path, [started[0].endpoint]).run()


class Noted(Checkpoints):
    """Notes for each checkpoint how far its source was, and the last number in a state."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.noted: list[tuple[int, int]] = []

    def keep(self, kept: Checkpoint) -> None:
        super().keep(kept)
        snapshots: dict[str, Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(kept.snapshots))
        states = [state for each in snapshots.values() for kept in each["states"] for state in kept]
        last = max((max(state["seen"]) for _, state in states), default=-1)
        self.noted.append((snapshots["many.0"]["position"], last))


def test_checkpoints_go_on_behind_a_source_s_end_and_all_of_them_is_of_one_moment(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, GATHERING)
    checkpoints = Noted(tmp_path / "checkpoints")
    with engines(tmp_path, 2) as started:
        endpoints = [each.endpoint for each in started]
        FlowRun(load(path), path, endpoints, checkpoints=checkpoints, every=0.05).run()

    assert len(checkpoints.noted) > 3
    assert [last for _, last in checkpoints.noted] == [
        position - 1 for position, _ in checkpoints.noted
    ]


def test_a_receipt_that_was_lost_at_the_very_end_is_told_again(tmp_path: Path) -> None:
    path = written(tmp_path, "from shunter import Flow\nflow = Flow('short')\n")
    flow = load(path)
    flow.source([1]).balanced().map(str, workers=2).sink(print)
    plan = planned(flow, 2)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    deployment = Deployment(
        context, flow, plan, 1, network=LOOPBACK, saved=None, token=b"t",
        tell=lambda *_: None, complain=lambda _: None,
    )  # fmt: skip
    address = deployment.deploy(["str.1"], {})["str.1"]
    deployment.start()
    socket = context.socket(zmq.DEALER)
    socket.connect(address.tcp)
    end = LinkEnvelope(plan.worker("str.1").senders[0], 0, 1, 1, "", Instruction(END_OF_STREAM))
    try:
        for _ in range(2):
            socket.send_multipart([b"t", msgspec.msgpack.encode(end), b""])
            assert socket.poll(5000)
            assert msgspec.msgpack.decode(socket.recv(), type=LinkReceipt).mark == 1
    finally:
        deployment.remove()
        socket.close()
        context.term()
