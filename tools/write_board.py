"""Write deploy/monitoring/grafana.json, a board for Grafana, from the table below: make docs.

The table is what people read and change; the JSON is what Grafana wants of it. Questions are in
rows: does it work, does it keep up, what goes wrong.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

BOARD = Path(__file__).parents[1] / "deploy" / "monitoring" / "grafana.json"
COLUMNS, WIDTH, HEIGHT = 3, 8, 8


def quantile(part: str, metric: str) -> str:
    return f"histogram_quantile({part}, sum by (le) (rate({metric}_bucket[5m])))"


# title, unit, and for each line its expression and name
PANELS: list[tuple[str, str, list[tuple[str, str]]]] = [
    ("Jobs a second", "ops", [
        ("sum(rate(shunter_jobs_accepted_total[1m]))", "accepted"),
        ("sum(rate(shunter_jobs_completed_total[1m]))", "completed"),
        ("sum(rate(shunter_jobs_failed_total[1m]))", "failed"),
        ("sum(rate(shunter_jobs_cancelled_total[1m]))", "cancelled"),
    ]),
    ("Dispatchers that answer", "none", [('up{job="shunter"}', "{{instance}}")]),
    ("Workers", "none", [
        ("max by (state) (shunter_workers)", "{{state}}"),
        ("shunter_workers_connected", "connected to {{instance}}"),
    ]),
    ("Jobs that wait", "none", [("max by (type) (shunter_queue_length)", "{{type}}")]),
    ("The oldest that waits", "s", [("max by (type) (shunter_queue_oldest_seconds)", "{{type}}")]),
    ("Jobs in the store", "none", [
        ("sum by (status) (max by (type, status) (shunter_jobs))", "{{status}}"),
    ]),
    ("From ready to run until started", "s", [
        (quantile("0.5", "shunter_dispatch_seconds"), "p50"),
        (quantile("0.99", "shunter_dispatch_seconds"), "p99"),
    ]),
    ("Runs", "s", [
        (quantile("0.5", "shunter_run_seconds"), "p50"),
        (quantile("0.99", "shunter_run_seconds"), "p99"),
    ]),
    ("Callbacks a second", "ops", [
        ("sum(rate(shunter_callbacks_delivered_total[5m]))", "delivered"),
        ("sum(rate(shunter_callbacks_failed_total[5m]))", "failed, tried again"),
        ("sum(rate(shunter_callbacks_given_up_total[5m]))", "given up"),
    ]),
    ("What was lost and taken back, a second", "ops", [
        ("sum(rate(shunter_jobs_lost_total[5m]))", "runs lost with their worker"),
        ("sum(rate(shunter_workers_died_total[5m]))", "leases lapsed"),
        ("sum(rate(shunter_claims_released_total[5m]))", "claims released"),
    ]),
    ("Refused, a second", "ops", [
        ("sum by (reason) (rate(shunter_refused_total[5m]))", "{{reason}}"),
    ]),
    ("Store", "none", [
        ("sum by (instance) (increase(shunter_store_failures_total[5m]))", "fails: {{instance}}"),
        ("sum by (instance) (rate(shunter_writes_refused_total[5m]))", "lost races: {{instance}}"),
        ("max by (instance) (abs(shunter_clock_ahead_seconds))", "clock off: {{instance}}"),
    ]),
]  # fmt: skip


def board() -> dict[str, Any]:
    """Return the board as Grafana imports it; it asks which Prometheus to use."""
    source = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
    panels = [
        {
            "id": number + 1,
            "type": "timeseries",
            "title": title,
            "datasource": source,
            "gridPos": {
                "x": number % COLUMNS * WIDTH,
                "y": number // COLUMNS * HEIGHT,
                "w": WIDTH,
                "h": HEIGHT,
            },
            "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
            "targets": [
                {"refId": chr(65 + at), "expr": expr, "legendFormat": name, "datasource": source}
                for at, (expr, name) in enumerate(lines)
            ],
        }
        for number, (title, unit, lines) in enumerate(PANELS)
    ]
    prometheus = {"name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource"}
    return {
        "__inputs": [{**prometheus, "pluginId": "prometheus", "pluginName": "Prometheus"}],
        "uid": "shunter",
        "title": "Shunter",
        "schemaVersion": 39,
        "time": {"from": "now-3h", "to": "now"},
        "refresh": "30s",
        "panels": panels,
    }


def text() -> str:
    return json.dumps(board(), indent=1) + "\n"


def main() -> int:
    """Write the board; with --check only say whether that is due."""
    if "--check" in sys.argv[1:]:
        return int(BOARD.read_text() != text())
    BOARD.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
