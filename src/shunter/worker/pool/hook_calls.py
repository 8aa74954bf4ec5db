"""Calls of `@app.on_final_failure` for runs that were stopped, or whose process has died.

Such a call goes to a child like a job, before all jobs that wait, with a time-out of its own. The
end of the run has been reported by then, so what becomes of the call is only logged.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from shunter.errors import JobFailed
from shunter.model.job import Failure
from shunter.wire.messages import Assignment

CALL_MARK = 1 << 62
"""Keys of jobs are counted from 1 and never get there."""

CALL_SECONDS = 10.0
"""How long the hooks of one job may take, all together."""

MESSAGE_CHARACTERS = 4000
"""So much of a failure's message is passed on: a call has to fit into one message."""


class HookCall(Assignment, frozen=True, kw_only=True):
    """The job, without its payload, and how it failed."""

    failure: Failure

    @property
    def error(self) -> JobFailed:
        """What the hooks get as the error."""
        return JobFailed(self.job_id, self.failure.kind, self.failure.message)


class EndedCall(Struct, frozen=True):
    """What became of a call: what the hooks printed, and why it did not end by itself."""

    call: HookCall
    log: str = ""
    failure: Failure | None = None


def hook_call(job: Assignment, failure: Failure) -> HookCall:
    """Return what a child needs to know to call the hooks."""
    short = replace(failure, message=failure.message[:MESSAGE_CHARACTERS], traceback="")
    fields: dict[str, Any] = asdict(job)
    return HookCall(
        **{**fields, "payload": b"", "parents": b"", "timeout": CALL_SECONDS, "failure": short}
    )


def is_call(key: int) -> bool:
    """True if a key is that of a call."""
    return key >= CALL_MARK


read_call = msgspec.msgpack.Decoder(HookCall).decode
