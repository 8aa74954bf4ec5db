"""The page of a report: one file with its plots and tables in it, which needs no network.

What others wrote, such as errors, is escaped; should something slip through, the page's policy
lets nothing run and nothing be loaded, and no style apply but the one below.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Iterable, Sequence
from html import escape

from shunter.reporting import plots
from shunter.reporting.document import HistoryReport, Spread
from shunter.reporting.wording import share_of, span_of

STYLE = """
:root { color-scheme: light dark; --ink: #23272e; --soft: #667080; --line: #d9dde3;
  --page: #fbfbfa; --card: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e6ea; --soft: #9aa3af; --line: #3a4049;
  --page: #17191d; --card: #1f2227; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.6rem 0 .7rem; }
p.about { color: var(--soft); margin: .2rem 0 1.6rem; }
.figures { display: flex; flex-wrap: wrap; gap: .8rem; }
.figures div { flex: 1 1 7.5rem; background: var(--card); border: 1px solid var(--line);
  border-radius: .5rem; padding: .8rem 1rem; }
.figures b { display: block; font-size: 1.5rem; font-weight: 600; }
.figures span { color: var(--soft); font-size: .9rem; }
.plot { background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  padding: .8rem; overflow-x: auto; }
.plot svg { width: 100%; height: auto; min-width: 34rem; display: block; }
.plot text { font-family: inherit !important; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; margin-top: .8rem; }
th { text-align: right; color: var(--soft); font-weight: 500; white-space: nowrap; }
td { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: .35rem .7rem; border-bottom: 1px solid var(--line); }
th.text, td.text { text-align: left; white-space: normal; overflow-wrap: anywhere; }
footer { color: var(--soft); font-size: .85rem; margin-top: 3rem; }
"""


_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"


def page_of(report: HistoryReport) -> str:
    """Return the whole page."""
    parts = [_head(report)]
    if report.jobs:
        parts += [_throughput(report), _times(report), _failures(report), _workers(report)]
    else:
        parts.append("<p>No finished jobs in this time: nothing has ended yet, or all of it was "
                     "purged. Ask for more with <code>--since</code>.</p>")  # fmt: skip
    body = "\n".join(filter(None, parts))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Shunter: finished jobs</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"{body}\n<footer>Made by <code>shunter report</code>. Times are in UTC. Percentiles are "
        "values that occurred. A job waits from when it could first run until it does; its run is "
        "the last one.</footer>\n</main>\n</body>\n</html>\n"
    )


def _head(report: HistoryReport) -> str:
    since = f" since {_moment(report.since)}" if report.since is not None else ""
    figures = {
        "finished jobs": f"{report.jobs:,}",
        "completed": f"{report.completed:,}",
        f"failed ({share_of(report.failed, report.jobs)})": f"{report.failed:,}",
        "cancelled": f"{report.cancelled:,}",
        "job types": f"{len(report.types):,}",
        "workers": f"{len(report.workers):,}",
    }
    if report.first is not None and report.last is not None:
        figures["from first start to last end"] = span_of(report.last - report.first)
    cards = "".join(
        f"<div><b>{value}</b><span>{name}</span></div>" for name, value in figures.items()
    )
    return (
        f'<h1>Finished jobs</h1>\n<p class="about">Jobs that ended{since}, seen at '
        f'{_moment(report.made)}</p>\n<section class="figures">{cards}</section>'
    )


def _throughput(report: HistoryReport) -> str:
    return _section("Throughput", plots.svg(report, plots.throughput))


def _times(report: HistoryReport) -> str:
    heads = (
        "type", "jobs", "repeated runs", "waited p50", "p95", "max", "ran p50", "p95", "max",
    )  # fmt: skip
    rows = [
        [
            each.type,
            f"{each.jobs:,}",
            f"{each.repeated:,}",
            *_three(each.waiting),
            *_three(each.run),
        ]
        for each in report.types
    ]
    title = "Waiting and run times by type"
    return _section(title, plots.svg(report, plots.times), _table(heads, rows))


def _failures(report: HistoryReport) -> str:
    if not report.failed + report.cancelled:
        return "<h2>Failures</h2>\n<p>All jobs completed.</p>"
    heads = ("type", "failed", "of its jobs", "most frequent errors")
    rows = [
        [each.type, f"{error.count:,}", share_of(error.count, each.jobs), error.message]
        for each in report.types
        for error in each.errors
    ]
    table = _table(heads, rows, texts=(0, 3)) if rows else ""
    return _section("Failures by type", plots.svg(report, plots.failures), table)


def _workers(report: HistoryReport) -> str:
    if not report.workers:
        return ""
    heads = ("worker", "jobs", "busy", "of the time", "jobs at once")
    rows = [
        [
            each.worker,
            f"{each.jobs:,}",
            span_of(each.busy_seconds),
            f"{100 * each.busy_share:.0f} %",
            f"{each.jobs_at_once:.2f}",
        ]
        for each in report.workers
    ]
    return _section("Workers' use", plots.svg(report, plots.workers), _table(heads, rows))


def _section(title: str, plot: str, table: str = "") -> str:
    return f'<h2>{escape(title)}</h2>\n<div class="plot">{plot}</div>\n{table}'


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, texts: Sequence[int] = (0,)
) -> str:
    def cells(tag: str, values: Sequence[str]) -> str:
        kinds = [' class="text"' if at in texts else "" for at in range(len(values))]
        return "".join(
            f"<{tag}{kind}>{escape(value)}</{tag}>"
            for kind, value in zip(kinds, values, strict=True)
        )

    body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = f"<thead><tr>{cells('th', heads)}</tr></thead>"
    return f'<div class="wide"><table>{head}\n<tbody>\n{body}\n</tbody></table></div>'


def _three(spread: Spread | None) -> list[str]:
    if spread is None:
        return ["–"] * 3
    return [span_of(spread.p50), span_of(spread.p95), span_of(spread.max)]


def _moment(at: float) -> str:
    return time.strftime("%d %B %Y, %H:%M:%S UTC", time.gmtime(at))
