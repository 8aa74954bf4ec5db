"""Another host, made of a network namespace: it has interfaces of its own, and cables to cut."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_made = 0


class Cable:
    """A pair of interfaces. `here` is our address on it, `there` the other host's."""

    def __init__(self, host: str, number: int) -> None:
        self._host, self._ours, self._theirs = host, f"sh{number}a", f"sh{number}b"
        subnet = f"10.{200 + number // 250}.{number % 250}"
        self.here, self.there = f"{subnet}.1", f"{subnet}.2"

    def lay(self) -> None:
        _ip("link", "add", self._ours, "type", "veth", "peer", "name", self._theirs)
        _ip("link", "set", self._theirs, "netns", self._host)
        _ip("addr", "add", f"{self.here}/30", "dev", self._ours)
        _ip("link", "set", self._ours, "up")
        _ip("-n", self._host, "addr", "add", f"{self.there}/30", "dev", self._theirs)
        self.mend()

    def cut(self) -> None:
        """Nothing gets through, and nobody is told."""
        _ip("-n", self._host, "link", "set", self._theirs, "down")

    def mend(self) -> None:
        _ip("-n", self._host, "link", "set", self._theirs, "up")


class Elsewhere:
    """A host behind two cables."""

    def __init__(self, number: int) -> None:
        self.name = f"shunter{number}"
        self.cables = Cable(self.name, number), Cable(self.name, number + 1)

    @property
    def inside(self) -> tuple[str, ...]:
        """The words that run a command there."""
        return ("ip", "netns", "exec", self.name)

    def build(self) -> None:
        _ip("netns", "add", self.name)
        _ip("-n", self.name, "link", "set", "lo", "up")
        for cable in self.cables:
            cable.lay()

    def destroy(self) -> None:
        _ip("netns", "delete", self.name)


@contextmanager
def elsewhere() -> Iterator[Elsewhere]:
    """Make another host, or skip the test where that is not allowed."""
    global _made
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need root and iproute2")
    _made += 1
    host = Elsewhere(2 * ((os.getpid() * 7 + _made) % 6_000))
    try:
        _ip("netns", "add", f"probe-{host.name}")
        _ip("netns", "delete", f"probe-{host.name}")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespace can be made here: {error.stderr}")
    try:
        host.build()
        yield host
    finally:
        host.destroy()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=20)
