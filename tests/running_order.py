"""Which test files run beside which, and in what order, when several processes share them.

Tests with processes of ours mostly wait: for a lease, a deadline, a restart. The others keep a
processor busy. So some of pytest's processes begin with the busy files, and stand back where a
processor is wanted by the others, which begin with those that wait. Whoever has no more of its own
kind helps with the other.
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler.loadfile import LoadFileScheduling

ONE_IN = 3
"""One in so many of pytest's processes begins with what keeps a processor busy."""

STANDS_BACK = 5
"""By how much these are nicer than others."""

ONE_SESSION = "tests/system/spark"

BUSY = ("tests/system/spark", "tests/conformance", "tests/unit", "tests/docs", "examples")

LONGEST = (
    "tests/system/spark",
    "tests/conformance/mongo/test_mongo_ambiguity.py",
    "tests/conformance/store/test_store_faults.py",
    "tests/system/spark/drivers/test_spark_jobs.py",
    "tests/system/spark/drivers/test_cluster.py",
    "tests/system/spark/drivers/test_own_sessions.py",
    "tests/conformance/sinks/test_file_sinks.py",
    "tests/system/spark/drivers/test_memory.py",
    "tests/system/spark/drivers/test_connect.py",
    "tests/conformance/store/test_store_sharing.py",
    "tests/docs/test_types.py",
    "tests/conformance/sinks/test_several_workers.py",
    "tests/conformance/sources/test_sources.py",
    "tests/docs/test_guide.py",
    "tests/conformance/mongo/test_mongo_outages.py",
    # those that wait
    "tests/system/flow/test_flow_jobs.py",
    "tests/system/flow/test_engines.py",
    "tests/system/page/test_page.py",
    "tests/system/rerun/test_kills_at_every_step.py",
    "tests/system/http/test_schemathesis.py",
    "tests/system/test_credits.py",
    "tests/system/security/test_idle_connections.py",
    "tests/system/test_store_faults.py",
    "tests/system/http/test_http_workers.py",
    "tests/system/udp/test_dialogue.py",
    "tests/system/test_no_master.py",
    "tests/system/test_large_messages.py",
    "tests/system/test_partitions.py",
    "tests/system/test_cut_off.py",
    "tests/system/test_frozen_parent.py",
    "tests/system/pool/test_watchdog.py",
    "tests/system/test_clocks_and_stalls.py",
    "tests/system/test_kills.py",
    "tests/system/http/test_callbacks.py",
    "tests/system/http_worker/test_leaving.py",
    "tests/system/http_worker/test_lease_over_http.py",
    "tests/system/udp/test_calculator_alone.py",
    "tests/system/test_dispatchers_share_http_workers.py",
    "tests/system/page/test_plots.py",
    "tests/system/page/test_live_views.py",
    "tests/system/pool/test_child_deaths.py",
    "tests/system/page/test_page_safety.py",
)
"""What takes longest, longest first; all others are short, and come after these."""

_PLACES = {unit: place for place, unit in enumerate(LONGEST)}


def unit_of(nodeid: str) -> str:
    """Return what a test is run together with: its file, or all that share a Spark session."""
    path = nodeid.partition("::")[0]
    folder = path.rpartition("/")[0]
    return folder if folder == ONE_SESSION else path


def place_of(nodeid: str) -> tuple[int, bool]:
    """Return what to sort by, so that the longest begin and the shortest end."""
    unit = unit_of(nodeid)
    return _PLACES.get(unit, len(_PLACES)), not unit.startswith("tests/system/")


def begins_with_busy(worker: str) -> bool:
    """True if this one of pytest's processes begins with what keeps a processor busy."""
    return int(worker.removeprefix("gw")) % ONE_IN == 0


class SideBySide(LoadFileScheduling):
    """Gives each of pytest's processes the next unit of its kind.

    Who helps takes the last one: these are short, and start no server that a process keeps.
    """

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        wants_busy = begins_with_busy(node.gateway.id)
        own = (unit for unit in self.workqueue if unit.startswith(BUSY) == wants_busy)
        unit = next(own, None) or next(reversed(self.workqueue))
        self.workqueue.move_to_end(unit, last=False)
        super()._assign_work_unit(node)
