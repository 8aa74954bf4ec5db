"""What is said to keep a job does keep it, and nothing else does: tried in 2,000 systems.

In each a real dispatcher has started all it could. Without all that is named the job starts; with
any one of it left it does not, whatever else is taken away; and the one change does what it says.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from shunter.model.explanation import Explanation, JobStanding, ReasonKind
from shunter.why.reading import why
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
        system.change(said.change)
        assert system.is_started, f"seed {seed}: it does not start by {said.change}"
        seen[f"by {said.change.kind}"] += 1
    else:
        seen["by no single change"] += 1
        assert len(said.reasons) > 1, f"seed {seed}: {said}"
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
