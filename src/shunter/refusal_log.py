"""Bad input: counted each time, logged once for each peer and reason."""

from __future__ import annotations

from collections import Counter, OrderedDict

import structlog

REMEMBERED = 4096


class RefusalLog:
    """What peers did wrong, in the log of this name; counted where there are counters."""

    def __init__(
        self, counters: Counter[str] | None = None, *, logger: str = "shunter.gateway"
    ) -> None:
        self._counters = Counter[str]() if counters is None else counters
        self._logged: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._log = structlog.get_logger(logger)

    def note(self, peer: str, reason: str, detail: str) -> None:
        """Count a fault; `reason` is a short fixed word, `detail` the whole sentence."""
        self._counters[f"refused_{reason}"] += 1
        if (peer, reason) in self._logged:
            return
        self._logged[peer, reason] = None
        if len(self._logged) > REMEMBERED:
            self._logged.popitem(last=False)
        self._log.warning("refused", action="refuse", peer=peer, reason=reason, detail=detail)


def peer_name(identity: bytes) -> str:
    """Write a ZeroMQ identity so that people can read it."""
    if identity[:1] != b"\0" and identity.isascii() and identity.decode("ascii").isprintable():
        return identity.decode("ascii")
    return identity.hex()
