"""The limit for UDP: how many JSON packets two Python processes exchange here at all.

A server that reads each packet as JSON and sends it back as JSON, on a plain socket that blocks;
and a client that keeps some packets under way, then one at a time. Nothing is stored, counted or
sent again. Packets are those of an `add_task`; each way counts as one, as in a task's eight.
"""

from __future__ import annotations

import json
import socket
import sys
import time

from bench.stage import conclude, percentile

UNDER_WAY = 64
WARM_UP = 1000
LOST_SECONDS = 5.0
LARGEST = 65_535


def serve(port: int) -> None:
    """Echo for ever."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", port))
        while True:
            packet, sender = bound.recvfrom(LARGEST)
            bound.sendto(_written(json.loads(packet)), sender)


def ask(port: int, exchanges: int, trips: int) -> None:
    """Measure, and tell the parent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connected:
        connected.settimeout(LOST_SECONDS)
        connected.connect(("127.0.0.1", port))
        _exchange(connected, WARM_UP)
        began = time.perf_counter()
        _exchange(connected, exchanges)
        took = time.perf_counter() - began
        seconds = []
        for number in range(trips):
            sent = time.perf_counter()
            connected.send(_packet(number))
            json.loads(connected.recv(LARGEST))
            seconds.append(time.perf_counter() - sent)
    conclude(
        packets_per_second=2 * exchanges / took,
        p50_ms=percentile(seconds, 0.5),
        p99_ms=percentile(seconds, 0.99),
    )


def _exchange(connected: socket.socket, exchanges: int) -> None:
    """Send packets, some of them ahead of the answers, and read all answers."""
    for number in range(exchanges + UNDER_WAY):
        if number < exchanges:
            connected.send(_packet(number))
        if number >= UNDER_WAY:
            json.loads(connected.recv(LARGEST))


def _packet(number: int) -> bytes:
    params = {"task_id": number, "type": "echo", "payload": [number]}
    packet = {"method": "add_task", "params": params, "packet_type": 1, "transmission_id": number}
    return _written(packet)


def _written(packet: object) -> bytes:
    return json.dumps(packet, separators=(",", ":")).encode()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", port]:
            serve(int(port))
        case ["ask", port, exchanges, trips]:
            ask(int(port), int(exchanges), int(trips))
