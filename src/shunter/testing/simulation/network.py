"""All networks of a run: ZeroMQ, UDP and HTTP over the same wires."""

from __future__ import annotations

from shunter.testing.simulation.datagrams import DatagramNetwork
from shunter.testing.simulation.http_network import HttpNetwork
from shunter.testing.simulation.links import Wires
from shunter.testing.simulation.loop import ProcessLoop
from shunter.testing.simulation.sockets import ZmqNetwork


class Network:
    """What is done to all of them at once."""

    def __init__(self, wires: Wires, names: tuple[str, ...]) -> None:
        self.zmq = ZmqNetwork(wires)
        self.datagrams = DatagramNetwork(wires, names)
        self.http = HttpNetwork(wires)

    def close_all_of(self, loop: ProcessLoop) -> None:
        """A process has died: the system closes what it left open."""
        for each in (self.zmq, self.datagrams, self.http):
            each.close_all_of(loop)

    def reset(self, one: str, other: str) -> None:
        """Break the connections between two processes."""
        self.zmq.reset(one, other)
        self.http.reset(one, other)

    def most_waiting(self) -> int:
        """Return how many messages wait in the longest queue."""
        return max(self.zmq.most_waiting(), self.datagrams.most_waiting())
