"""A checkpoint as a whole: of which flow it is, and how that differs from the one at hand.

It needs no Spark, so that what can't go on is refused before Spark is started.
"""

from __future__ import annotations

from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.location import Location
from shunter.flow.runners.spark.stream.differences import Differences, differing
from shunter.flow.runners.spark.stream.identity import (
    Identity,
    identity_of,
    kept_identity,
    pins_of,
)
from shunter.flow.runners.spark.stream.ledger import Ledger


def checkpoint_identity(folder: Location) -> Identity | None:
    """Return of which flow a checkpoint is, by its last commit; None if it is new."""
    begun = kept_identity(folder)
    return None if begun is None else Ledger(folder, "").identity() or begun


def compared(flow: FlowGraph, kept: Identity, nodes: int) -> tuple[Identity, Differences]:
    """Return what a flow is when it goes on from a checkpoint, and how that differs."""
    now = identity_of(flow, nodes, pins_of(flow, kept))
    return now, differing(kept, now)
