"""Whether a dispatcher is up and ready, what it counts, and what it says it serves."""

from __future__ import annotations

import signal

import httpx
from prometheus_client.parser import text_string_to_metric_families

from system.http.conftest import Web
from system.yard import Yard, until


def counted(web: Web) -> dict[tuple[str, ...], float]:
    text = web.raw.get("/metrics").text
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_dispatcher_that_serves_is_ready(web: Web) -> None:
    for path in ("/healthz", "/readyz"):
        answer = web.raw.get(path)
        assert (answer.status_code, answer.json()) == (200, {"ready": True})


def test_metrics_follow_what_happens(web: Web) -> None:
    before = counted(web)
    done = web.submit("add", 1, 2)
    web.submit("unserved-here")
    web.when(done["id"], "c")

    after = until(
        lambda: (
            (now := counted(web)).get(("shunter_jobs", "completed", "add"), 0)
            > before.get(("shunter_jobs", "completed", "add"), 0)
            and now
        )
    )

    assert after["shunter_queue_length", "unserved-here"] == 1
    assert after["shunter_workers", "alive"] == 1
    assert after["shunter_queue_oldest_seconds", "unserved-here"] >= 0
    assert after["shunter_run_seconds_count", "add"] >= 1
    assert after["shunter_dispatch_seconds_count", "add"] >= 1
    assert after["shunter_sweeps_total", "sweep"] >= 1
    for name in ("shunter_jobs_accepted_total", "shunter_jobs_completed_total"):
        assert after[name,] > before[name,]


def test_what_is_served_is_described(web: Web) -> None:
    document = web.raw.get("/openapi.json").json()

    assert document["openapi"].startswith("3.1")
    for path, methods in document["paths"].items():
        for method in methods:
            answer = web.raw.request(method, path.replace("{id}", "unknown"))
            assert answer.status_code not in (405, 500), (method, path)
            assert str(answer.status_code) in methods[method]["responses"], (method, path)


def test_a_dispatcher_with_a_slow_client_stops_all_the_same(yard: Yard) -> None:
    station = yard.dispatcher()
    slow = httpx.Client(base_url=f"http://127.0.0.1:{station.http_port}", trust_env=False)
    with slow, slow.stream("GET", "/openapi.json"):
        station.process.signal(signal.SIGTERM)
        assert station.process.exit_code() == 0
