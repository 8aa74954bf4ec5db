"""What a dispatcher shows of its tasks, its calculators and its counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from system.calls import calls
from system.udp_peers import UdpPeer
from system.yard import PATIENCE, Station


def _listed(station: Station, what: str) -> list[dict[str, Any]]:
    url = f"{station.url}/dispatcher/{what}/"
    return list(calls.get(url, timeout=PATIENCE).json()[what])


def jobs(station: Station, client: UdpPeer | None = None) -> list[dict[str, Any]]:
    """Return all jobs, or those of one client, newest first."""
    key = f"udp:{client.address}#" if client else ""
    return [job for job in _listed(station, "jobs") if (job["unique_key"] or "").startswith(key)]


def calculators(station: Station, state: str = "alive") -> list[str]:
    """Return the ids of those who are there."""
    found = _listed(station, "workers")
    return [each["id"] for each in found if each["state"] == state and each["kind"] == "udp"]


def cancel(station: Station, job_id: str) -> None:
    url = f"{station.url}/dispatcher/jobs/{job_id}"
    assert calls.delete(url, timeout=PATIENCE).is_success


def counting(station: Station) -> Callable[[str], int]:
    """Return what tells how much a counter has risen from now on."""
    before = station.counters()
    return lambda name: station.counters().get(name, 0) - before.get(name, 0)
