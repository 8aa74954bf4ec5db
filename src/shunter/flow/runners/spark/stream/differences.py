"""Whether a checkpoint fits a flow that has changed: what is kept, dropped, new or refused. Pure.

A state fits the stage of its name if it is kept in the same way, by the same key, and as many
times where it is no matter of keys. What is carried over is a commit like any other.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from shunter.errors import FlowError
from shunter.flow.graph.keys import hashes_of
from shunter.flow.graph.stages import StageKind
from shunter.flow.runners.spark.stream.identity import (
    BY_KEY,
    DATAFRAME,
    WHOLE,
    Identity,
    StageFacts,
)
from shunter.flow.runners.spark.stream.ledger import Commit
from shunter.flow.runners.spark.stream.states import StateFile


class Differences(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a checkpoint, as sentences. It is taken on only if nothing is `refused`."""

    kept: list[str]
    dropped: list[str]
    new: list[str]
    changed: list[str]
    refused: list[str]

    @property
    def are_none(self) -> bool:
        return not (self.dropped or self.new or self.changed or self.refused)

    def notice(self) -> str:
        """Return what goes on otherwise than before; "" if nothing does."""
        parts = {"dropped": self.dropped, "new": self.new, "changed": self.changed}
        return "; ".join(f"{name}: {', '.join(said)}" for name, said in parts.items() if said)

    def check(self, folder: object) -> None:
        """Raise if the checkpoint can't be carried over."""
        if self.refused:
            raise FlowError(
                f"{folder} is the checkpoint of another version of this flow: "
                f"{'; '.join(self.refused)}. Nothing was touched; run that version, give a changed "
                "stage another name to let it begin empty, or name a new folder with --checkpoints"
            )


def differing(kept: Identity, now: Identity) -> Differences:
    """Compare a checkpoint with a flow."""
    before, after = kept.stages, now.stages
    both = [name for name in after if name in before]
    refusals = {name: _refused(before[name], after[name]) for name in both}
    refused = [f"the stage {name!r} {reason}" for name, reason in refusals.items() if reason]
    if kept.flow != now.flow:
        refused.insert(0, f"it is of the flow {kept.flow!r}, not {now.flow!r}")
    sources, now_sources = _sources(before), _sources(after)
    if sources != now_sources and DATAFRAME in (*sources.values(), *now_sources.values()):
        refused.append(
            "its sources are not the same, and Spark keeps by itself how far DataFrames were read"
        )
    lost = [name for name in both if before[name].keeps and not after[name].keeps]
    return Differences(
        kept=[
            f"{_what(after[name])} of {name!r}"
            for name in both
            if _what(after[name]) and not refusals[name]
        ],
        dropped=[f"{_what(before[name])} of {name!r}" for name in before
                 if _what(before[name]) and (name not in after or name in lost)],
        new=[f"{_new(facts)} {name!r}" for name, facts in after.items() if name not in before],
        changed=list(_changed(kept, now)),
        refused=refused,
    )  # fmt: skip


def _sources(stages: dict[str, StageFacts]) -> dict[str, str]:
    return {name: each.holds for name, each in stages.items() if each.kind == StageKind.SOURCE}


def _refused(before: StageFacts, after: StageFacts) -> str:
    """Say why what a stage keeps does not fit it any more; "" if it does."""
    ends = (StageKind.SOURCE, StageKind.SINK)
    if before.kind != after.kind and (before.kind in ends or after.kind in ends):
        return f"was a {before.kind}, and is a {after.kind}"
    if after.keeps and before.keeps and (before.keeps, before.kind) != (after.keeps, after.kind):
        return f"was {_state(before)}, and is {_state(after)}"
    if after.keeps == before.keeps == BY_KEY:
        if before.key != after.key:
            return f"has states by key {before.key}, and now it is by key {after.key}"
        if before.holds != after.holds:
            was, now = before.holds or "keys alone", after.holds or "keys alone"
            return f"has states of {was}, and now it is of {now}"
    is_counted = after.kind in ends or after.keeps == before.keeps == WHOLE
    if is_counted and before.count != after.count:
        return f"had {before.count} workers, and has {after.count}: each had its own {_own(after)}"
    return ""


def _state(facts: StageFacts) -> str:
    return f"{facts.kind} {facts.keeps if facts.keeps == BY_KEY else 'for each worker'}"


def _own(facts: StageFacts) -> str:
    if facts.kind == StageKind.SOURCE:
        return "part of the source"
    return "part of the output" if facts.kind == StageKind.SINK else "state"


def _what(facts: StageFacts) -> str:
    """Say what a checkpoint keeps of a stage; "" if nothing."""
    if facts.kind in (StageKind.SOURCE, StageKind.SINK):
        return f"the position of the {facts.kind}"
    return {BY_KEY: "the states by key", WHOLE: "the state"}.get(facts.keeps, "")


def _new(facts: StageFacts) -> str:
    if facts.kind == StageKind.SOURCE:
        return "read from its beginning: the source"
    return "beginning empty: the stage" if facts.keeps else f"the {facts.kind}"


def _changed(kept: Identity, now: Identity) -> Iterator[str]:
    if kept.nodes != now.nodes:
        yield f"it had {kept.nodes} nodes, and has {now.nodes}"
    for name, facts in kept.stages.items():
        if name not in now.stages and not _what(facts):
            yield f"the stage {name!r} is gone"
        elif name in now.stages and facts.workers != now.stages[name].workers:
            yield f"the stage {name!r} asks for another number of workers"
        elif name in now.stages and facts.kind != now.stages[name].kind:
            yield f"the stage {name!r} was a {facts.kind}, and is a {now.stages[name].kind}"
    yield from (f"the route {edge} is gone" for edge in kept.edges if edge not in now.edges)
    yield from (f"the route {edge} is new" for edge in now.edges if edge not in kept.edges)
    for file in {**kept.code, **now.code}:
        if kept.code.get(file) != now.code.get(file):
            yield f"the file {file!r} has changed"
    is_the_same = (kept.stages, kept.edges, kept.code) == (now.stages, now.edges, now.code)
    if is_the_same and kept.fingerprint != now.fingerprint:
        yield "what its errors do, or its instructions, are not the same"


def carried(commit: Commit, kept: Identity, now: Identity) -> Commit:
    """Return a commit as one of the flow as it is now."""
    sources = [name for name, facts in now.stages.items() if facts.kind == StageKind.SOURCE]
    sinks = [name for name, facts in now.stages.items() if facts.kind == StageKind.SINK]
    return msgspec.structs.replace(
        commit,
        sinks={each: at for each, at in commit.sinks.items() if _stage_of(each) in
               (*sinks, "dead letters")},
        offsets={each: at for each, at in commit.offsets.items() if _stage_of(each) in sources},
        counts={name: count for name, count in commit.counts.items() if name in now.stages},
        states=_carried_states(commit, kept, now),
    )  # fmt: skip


def _carried_states(commit: Commit, kept: Identity, now: Identity) -> dict[str, list[StateFile]]:
    if kept.workers == now.workers:
        return commit.states
    return {
        worker: heads
        for worker in now.workers
        if (heads := list(_heads_for(worker, commit, kept, now)))
    }


def _heads_for(worker: str, commit: Commit, kept: Identity, now: Identity) -> Iterator[StateFile]:
    """Return the files that hold states of a worker, each with the stages that count in it."""
    mine = now.workers[worker]
    for other, heads in commit.states.items():
        theirs = kept.workers[other]
        stages = [
            name
            for name in mine.stages
            if name in theirs.stages and kept.stages[name].keeps == now.stages[name].keeps
            if _shares(mine.index, mine.count, theirs.index, theirs.count, now.stages[name].keeps)
        ]
        for head in heads:
            if still := [name for name in stages if name in head.stages]:
                yield StateFile(head.name, still)


def _shares(index: int, count: int, other: int, others: int, keeps: str) -> bool:
    """True if a worker has states, or keys, that another one had."""
    if keeps == WHOLE:
        return index == other
    (first, last), (their_first, their_last) = hashes_of(index, count), hashes_of(other, others)
    return first <= their_last and their_first <= last


def _stage_of(worker: str) -> str:
    return worker.rpartition(".")[0]
