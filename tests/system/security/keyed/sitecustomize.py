"""Keys for a dispatcher under test: a JSON file, looked at whenever a key is looked up.

Python imports this by itself where the folder is in its path.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path


def _install() -> None:
    from shunter.gateway import service
    from shunter.wire.udp.keys import Secret, UdpKey

    path = Path(os.environ["SHUNTER_TEST_KEYS"])

    def look_up(name: str) -> UdpKey | None:
        found = json.loads(path.read_text()).get(name)
        if found is None:
            return None
        role, types = found
        return UdpKey(
            name,
            Secret(hashlib.sha256(name.encode()).digest()),
            may_add=role == "client",
            may_perform=role == "worker",
            types=frozenset(types),
        )

    service.udp_keys = lambda keys, secret: look_up


if "SHUNTER_TEST_KEYS" in os.environ:
    _install()
