"""What is logged once, or once in a while: what repeats, or strangers cause, must not fill a disk.

`LogThrottle` decides that, for all logs; `RefusalLog` is that of bad input, which is counted too.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Hashable

import structlog

REMEMBERED = 4096


class LogThrottle:
    """Lets each thing be said once, or again after a while; of many it forgets the oldest.

    Pure: `now` is that of any clock, the same for all that is said.
    """

    def __init__(self, again_after: float = math.inf) -> None:
        self._again_after = again_after
        self._said: OrderedDict[Hashable, float] = OrderedDict()

    def admit(self, what: Hashable, *, now: float = 0.0) -> bool:
        """Return whether to say it now; if so, it counts as said."""
        said = self._said.get(what)
        if said is not None and now - said < self._again_after:
            return False
        self._said[what] = now
        self._said.move_to_end(what)
        if len(self._said) > REMEMBERED:
            self._said.popitem(last=False)
        return True


class RefusalLog:
    """What peers did wrong, each reason of a peer once; counted where there are counters."""

    def __init__(
        self, counters: Counter[str] | None = None, *, logger: str = "shunter.gateway"
    ) -> None:
        self._counters = Counter[str]() if counters is None else counters
        self._throttle = LogThrottle()
        self._log = structlog.get_logger(logger)

    def note(self, peer: str, reason: str, detail: str) -> None:
        """Count a fault; `reason` is a short fixed word, `detail` the whole sentence."""
        self._counters[f"refused_{reason}"] += 1
        if self._throttle.admit((peer, reason)):
            self._log.warning("refused", action="refuse", peer=peer, reason=reason, detail=detail)


def peer_name(identity: bytes) -> str:
    """Write a ZeroMQ identity so that people can read it."""
    if identity[:1] != b"\0" and identity.isascii() and identity.decode("ascii").isprintable():
        return identity.decode("ascii")
    return identity.hex()
