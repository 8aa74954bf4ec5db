"""Which errors are tried again, and how long to wait before. Pure: the jitter is an argument.

Classes of errors travel as names, `module.Class`, those of Python itself without the module: so a
policy can be written in any language, and no code comes with it. Only the process that ran the
handler knows what an error descends from; it compares, and says whether another try makes sense.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import force_setattr, replace

if TYPE_CHECKING:
    ErrorNames = tuple[type[BaseException] | str, ...]
else:
    ErrorNames = tuple[str, ...]


class Retry(Struct, frozen=True, omit_defaults=True):
    """Try again up to `limit` times, waiting longer each time.

    The n-th wait is `delay * factor ** (n - 1)` seconds, at most `max_delay`, then shortened
    by up to the share `jitter` so that jobs which failed together don't return together.
    With `on`, only errors of these classes are tried again; those of `never` are not in any case.
    Both are exceptions' classes, or their names. A time-out is tried again if `on_timeout`.
    """

    limit: int = 0
    delay: float = 1.0
    factor: float = 2.0
    max_delay: float = 300.0
    jitter: float = 0.2
    on: ErrorNames = ()
    never: ErrorNames = ()
    on_timeout: bool = False

    def __post_init__(self) -> None:
        if self.on != ():
            force_setattr(self, "on", _names(self.on))
        if self.never != ():
            force_setattr(self, "never", _names(self.never))

    @property
    def has_classes(self) -> bool:
        """True if it matters what was raised."""
        return bool(self.on or self.never)

    @property
    def without_classes(self) -> Retry:
        """The rest of the policy: what a dispatcher needs to know."""
        return replace(self, on=(), never=()) if self.has_classes else self

    def covers(self, error: BaseException) -> bool:
        """True if an error like this one is worth another try."""
        lineage = {error_name(ancestor) for ancestor in type(error).__mro__}
        if not lineage.isdisjoint(self.never):
            return False
        return not self.on or not lineage.isdisjoint(self.on)


NO_RETRY = Retry()

AFTER_LOSS = Retry(delay=0.25, max_delay=30.0)
"""Waits between a job's losses. Its limit is not used: losses have their own, `max_losses`."""


def backoff(retry: Retry, failures: int, *, jitter: float) -> float:
    """Return the wait after the given number of failures; `jitter` is random in [0, 1)."""
    exponent = min(failures - 1, 64)
    full = min(retry.delay * retry.factor**exponent, retry.max_delay)
    return full * (1.0 - retry.jitter * jitter)


def error_name(error_class: type) -> str:
    """Return what a class is called in a policy."""
    if error_class.__module__ == "builtins":
        return error_class.__qualname__
    return f"{error_class.__module__}.{error_class.__qualname__}"


def _names(classes: Any) -> tuple[Any, ...]:
    """Return the names of classes; what is none is kept, for whoever checks a whole job to name."""
    is_one = isinstance(classes, str | type) or not isinstance(classes, Iterable)
    return tuple(
        error_name(one) if isinstance(one, type) and issubclass(one, BaseException) else one
        for one in ((classes,) if is_one else classes)
    )
