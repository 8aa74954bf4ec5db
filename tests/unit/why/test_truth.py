"""What is said to keep a job does keep it, and nothing else does: tried in 2,000 systems.

In each a real dispatcher has started all it could. Without all that is named the job starts; with
any one of it left it does not, whatever else is taken away. The one change does what it says, by no
less than it says; and where there is none, no other one does.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace

from shunter.model.explanation import (
    ChangeKind,
    Explanation,
    JobStanding,
    ReasonKind,
    SmallestChange,
)
from shunter.why.store_reads import why
from unit.why.why_world import System, World, drawn

STATES = 2000


async def asked(system: System) -> Explanation:
    said = await why(system.store, "job", now=system.clock())
    assert said is not None
    return said


def without(world: World, said: Explanation, left: int | None = None) -> bool:
    """True if the job starts without what is named, but for one of it."""
    system = System(world)
    system.remove([it for at, it in enumerate(said.reasons) if at != left])
    return system.is_started


def changed(world: World, change: SmallestChange) -> bool:
    """True if the job starts by one change."""
    system = System(world)
    system.change(change)
    return system.is_started


def smaller_than(change: SmallestChange) -> list[SmallestChange]:
    """The same change by one less, if it is one by a number."""
    is_number = change.kind in (ChangeKind.SLOTS, ChangeKind.SERVE) and (change.value or 0) > 1
    return [replace(change, value=(change.value or 0) - 1)] if is_number else []


def large_ones(world: World) -> Iterator[SmallestChange]:
    """Yield single changes that leave nothing of one obstacle."""
    limits = world.limits
    yield SmallestChange(kind=ChangeKind.SLOTS, text="", value=50)
    yield SmallestChange(kind=ChangeKind.RESUME, text="")
    if limits is not None and limits.per_key is not None and limits.total is None:
        yield SmallestChange(kind=ChangeKind.LIMIT, text="", value=50)
    if limits is not None and limits.total is not None:
        yield SmallestChange(kind=ChangeKind.TOTAL, text="", value=50)


async def tried(seed: int, seen: Counter[str]) -> bool:
    """Try one system; True if the job was kept in it."""
    world = drawn(seed)
    system = System(world)
    said = await asked(system)
    if system.is_started:
        assert said.standing is JobStanding.RUNNING
        return False
    assert said.status == system.job.status.word
    assert said.reasons, f"seed {seed}: {said}"
    assert without(world, said), f"seed {seed}: it does not start without {said.reasons}"
    for left, reason in enumerate(said.reasons):
        assert not without(world, said, left), f"seed {seed}: it starts with {reason}"
        seen[reason.kind] += 1
    if said.change is not None:
        assert changed(world, said.change), f"seed {seed}: it does not start by {said.change}"
        seen[f"by {said.change.kind}"] += 1
        for smaller in smaller_than(said.change):
            assert not changed(world, smaller), f"seed {seed}: {smaller} will do"
    else:
        seen["by no single change"] += 1
        for change in large_ones(world) if seed % 4 == 0 else ():
            assert not changed(world, change), f"seed {seed}: {change} starts it"
    return True


def test_what_is_named_keeps_the_job_and_nothing_else_does() -> None:
    async def all_of_them() -> Counter[str]:
        seen, kept, seed = Counter[str](), 0, 0
        while kept < STATES:
            kept += await tried(seed, seen)
            seed += 1
        return seen

    seen = asyncio.run(all_of_them())

    assert {kind for kind in ReasonKind if seen[kind] < 20} == set(), seen
