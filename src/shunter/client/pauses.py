"""How a client holds types, workers and versions back, and lets them go on."""

from __future__ import annotations

from typing import Any

from shunter.app import JobFunction
from shunter.client.input_checks import checked_drain, checked_type
from shunter.client.session import DispatcherSession
from shunter.errors import PauseRefused
from shunter.model.pause import Pause, PauseTarget
from shunter.wire.messages import Accepted, BareRequest, Kind, PauseOrder, PausesListed

JobType = str | JobFunction[..., Any]


class AsyncPauses:
    """That part of an asynchronous client."""

    _session: DispatcherSession

    async def pause(self, job_type: JobType) -> None:
        """Let no dispatcher start more jobs of a type, from 2 s on; what runs goes on."""
        await self._hold(PauseTarget.TYPE, checked_type(job_type), is_on=True)

    async def resume(self, job_type: JobType) -> None:
        """Let jobs of a type start again, or raise PauseRefused if it is not paused."""
        await self._hold(PauseTarget.TYPE, checked_type(job_type), is_on=False)

    async def drain(self, worker_id: str = "", *, version: str = "") -> None:
        """Give nothing new to a worker, or to all workers of a version, from 2 s on."""
        await self._hold(*checked_drain(worker_id, version), is_on=True)

    async def undrain(self, worker_id: str = "", *, version: str = "") -> None:
        """Give jobs again to what was drained."""
        await self._hold(*checked_drain(worker_id, version), is_on=False)

    async def pauses(self) -> list[Pause]:
        """Return all that is held back: types, workers and versions."""
        answer = await self._session.ask(Kind.PAUSES, BareRequest)
        assert isinstance(answer, PausesListed)
        return list(answer.pauses)

    async def _hold(self, target: PauseTarget, name: str, *, is_on: bool) -> None:
        answer = await self._session.ask(
            Kind.PAUSE, lambda number: PauseOrder(number, target, name, is_on)
        )
        assert isinstance(answer, Accepted)
        for receipt in answer.receipts:
            if receipt.reason:
                raise PauseRefused(target, name, receipt.reason)
