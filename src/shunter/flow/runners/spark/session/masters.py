"""Which strings name a master of Spark's, and whether one answers.

Only what is surely a typing error is refused: hosted platforms bring cluster managers of their own,
under any scheme, and Spark's configuration may name whatever it likes.
"""

from __future__ import annotations

import re
import socket

from shunter.errors import FlowError
from shunter.flow.runners.spark.session.kinds import CONNECT_SECONDS, is_embedded

EMBEDDED = "local[*]"

_KNOWN = re.compile(r"local(\[.*\])?|local-cluster\[.*\]|yarn|[a-z][a-z0-9+.-]*://.+")
_STANDALONE = re.compile(r"spark://[^/:,]+:\d+(,[^/:,]+:\d+)*")
_LOOPBACK = re.compile(r"spark://(127\.|localhost:)|local-cluster\[")


def check_master(master: str) -> None:
    """Raise a FlowError if this can't be a master, as far as one knows without Spark."""
    is_standalone = master.startswith("spark:")
    is_known = _STANDALONE if is_standalone else _KNOWN
    if is_known.fullmatch(master) is None or master.startswith("mesos:"):
        raise FlowError(
            f"{master!r} is no master of Spark's; write local[*], spark://HOST:PORT, yarn "
            "or k8s://HOST:PORT"
        )


def check_reachable(master: str) -> None:
    """Raise a FlowError if no standalone master answers there; Spark would try for a minute."""
    addresses = re.findall(r"([^/,:]+):(\d+)", master) if master.startswith("spark://") else []
    faults = []
    for host, port in addresses:
        try:
            socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            faults.append(str(error))
        else:
            return
    if faults:
        raise FlowError(
            f"the Spark master {master} can't be reached ({faults[0]}); start it, or name another "
            f"with --master; {EMBEDDED} needs none"
        )


def is_on_loopback(master: str) -> bool:
    """True if all executors of this master are on this machine."""
    return is_embedded(master) or _LOOPBACK.match(master) is not None


def has_our_python(master: str) -> bool:
    """True if executors are taken to have Python at the driver's path; others have images."""
    return is_on_loopback(master) or master.startswith("spark://")
