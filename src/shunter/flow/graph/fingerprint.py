"""A digest by which engines know that they have loaded the same flow.

It covers the graph and the bytes of the user's files, as far as the loader has named them, and
nothing that differs from host to host or from run to run. Pure.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from shunter.flow.graph.flow_graph import FlowGraph

FORMAT = 1


def fingerprint_of(flow: FlowGraph) -> str:
    """Return the digest as 64 hexadecimal digits."""
    return hashlib.sha256(msgspec.msgpack.encode(_description(flow))).hexdigest()


def _description(flow: FlowGraph) -> list[Any]:
    policy = flow.on_error if isinstance(flow.on_error, str) else "dead letters"
    return [
        FORMAT,
        flow.name,
        policy,
        sorted(flow.instructions),
        [[stage.name, stage.kind, stage.workers] for stage in flow.stages],
        [
            [edge.upstream.name, edge.downstream.name, edge.route.kind, edge.route.label]
            + ["late"] * edge.is_late
            + (
                []
                if edge.route.order is None
                else [str(edge.route.order), edge.route.order.lateness]
            )
            for edge in flow.edges
        ],
        flow.code,
    ]
