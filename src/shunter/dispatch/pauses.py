"""Pauses in the store: written by whoever is asked to, and read again and again by all dispatchers.

The decisions are in `model/pause.py`, and what follows from them in `placement.py`.
"""

from __future__ import annotations

from shunter.dispatch.dispatcher import Dispatcher
from shunter.errors import PauseRefused
from shunter.model.pause import (
    MAX_PAUSES,
    Pause,
    PauseTarget,
    all_of,
    check_name,
    check_worker,
    pause_id,
    pauses_in,
    record_of,
)
from shunter.model.record import Record, RecordKind
from shunter.store.port import Store


async def pauses(store: Store) -> list[Pause]:
    """Return all pauses."""
    return pauses_in(await store.records(RecordKind.PAUSE))


async def heed_pauses(dispatcher: Dispatcher) -> None:
    """Go by the pauses that the store has now."""
    dispatcher.hold_back(all_of(await pauses(dispatcher.store)))


async def pause(dispatcher: Dispatcher, target: PauseTarget, name: str, *, by: str = "") -> Pause:
    """Hold something back, here at once and elsewhere within a second; once is enough."""
    check_name(target, name)
    new = Pause(target=target, name=name, at=dispatcher.now(), by=by)
    if target is not PauseTarget.TYPE:
        check_worker(new, await dispatcher.store.workers())
    known = {it.id: it for it in await pauses(dispatcher.store)}
    if new.id not in known and len(known) >= MAX_PAUSES:
        raise PauseRefused(target, name, f"{MAX_PAUSES:,} pauses are there; end some of them")
    if new.id not in known:
        await dispatcher.store.swap_records([record_of(new)])
    await heed_pauses(dispatcher)
    return known.get(new.id, new)


async def resume(dispatcher: Dispatcher, target: PauseTarget, name: str) -> Pause:
    """Let go on what was held back, or raise PauseRefused if that was not so."""
    check_name(target, name)
    while True:
        found = {it.name: it for it in await dispatcher.store.records(RecordKind.PAUSE)}
        record = found.get(pause_id(target, name))
        if record is None:
            there = ", ".join(sorted(found)[:10]) or "nothing"
            raise PauseRefused(target, name, f"it is not held back; what is: {there}")
        gone = Record(kind=record.kind, name=record.name, revision=record.revision + 1)
        [is_done] = await dispatcher.store.swap_records([gone])
        if is_done:
            await heed_pauses(dispatcher)
            return pauses_in([record])[0]


async def forget_drained(dispatcher: Dispatcher) -> None:
    """Remove pauses of workers that have no record any more: their ids never come back."""
    found = await dispatcher.store.records(RecordKind.PAUSE)
    drained = {
        record.name: record
        for record in found
        if pauses_in([record])[0].target is PauseTarget.WORKER
    }
    if drained:
        known = {
            pause_id(PauseTarget.WORKER, worker.id) for worker in await dispatcher.store.workers()
        }
        await dispatcher.store.swap_records(
            [
                Record(kind=record.kind, name=name, revision=record.revision + 1)
                for name, record in drained.items()
                if name not in known
            ]
        )
