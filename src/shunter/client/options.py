"""What a submission may say beside type and arguments."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, force_setattr

from shunter.errors import AppError, JobRefused
from shunter.model.job import Callback
from shunter.model.job_limits import key_faults
from shunter.model.limits import MAX_SECONDS, unique_faults
from shunter.model.option_types import option_type_faults
from shunter.model.retry import Retry
from shunter.model.unique import Unique


class JobOptions(Struct, frozen=True, kw_only=True):
    """What a submission may say beside type and arguments. None leaves it to the handler.

    `callback` may be given as the URL alone. A job with `expires_in` fails if no worker has
    taken it this many seconds after it could have started; anew after each retry or loss. `keys`
    say whose the job is, for limits.
    """

    priority: int | None = None
    timeout: float | None = None
    retry: Retry | None = None
    delay: float | None = None
    not_before: float | None = None
    unique_key: str | None = None
    workflow: str | None = None
    run: str | None = None
    callback: Callback | str | None = None
    traceparent: str | None = None
    reply: bool = True
    effects: str | None = None
    expires_in: float | None = None
    unique: Unique | None = None
    keys: dict[str, str] | None = None

    def __post_init__(self) -> None:
        for field, reason in () if self.keys is None else key_faults(self.keys):
            raise JobRefused("(not sent)", field, reason)
        if isinstance(self.callback, str):
            force_setattr(self, "callback", Callback(self.callback))
        for field, fault in option_type_faults(asdict(self)):
            raise JobRefused("(not sent)", field, fault)
        if self.expires_in is not None and not 0 < self.expires_in <= MAX_SECONDS:
            raise AppError(
                f"expires_in: found {self.expires_in!r}; give seconds above 0, up to "
                f"{MAX_SECONDS:.0f}"
            )
        for field, reason in unique_faults(self.unique) if self.unique is not None else ():
            raise AppError(f"{field}: {reason}")

    def fields(self) -> dict[str, Any]:
        """Return the fields of a submission."""
        fields = asdict(self)
        fields["place_within"] = fields.pop("expires_in")
        return fields
