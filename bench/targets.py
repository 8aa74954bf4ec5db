"""Whether what was measured is enough. The targets are those of docs/benchmarks.md. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bench.figures import Figures

LEAST_JOBS_PER_SECOND = 10_000
LEAST_PART_OF_LIMIT = 0.3
MOST_TIMES_LIMIT = 3.0
MOST_MEGABYTES = 150
MOST_TIMES_SHORT = 1.2
LEAST_PART_OF_ONE = 0.9
LEAST_PART_OF_EMPTY_POST = 0.4
LEAST_PART_WITH_KEYS = 0.8
LEAST_PART_WITH_LIMITS = 0.9
MOST_TIMES_IDEAL = 1.5
LEAST_TASKS_PER_SECOND = 3000
LEAST_PART_OF_ECHO = 0.25
PACKETS_PER_TASK = 8
MOST_TASK_MILLISECONDS = 3.0
MOST_TIMES_PLAIN = 1.5
MOST_PARKED_PART = 0.01
LEAST_STEPPED = 1.0
MOST_PART_OF_TRIP = 1.0
MOST_IDLE_PART = 0.05
MOST_VIEW_MILLISECONDS = 150
LEAST_PART_WATCHED = 0.95
MOST_FIRST_PAGE_BYTES = 150_000
LEAST_TIMES_PROCRASTINATE = 5.0

LEAST_TIMES_BYTEWAX = {"one_process": 1.5, "two_engines": 1.0}
MOST_EVENT_MILLISECONDS = 10.0
MOST_TIMES_FEW = 1.2
MOST_TIMES_OF_HAND = 1.15
MOST_TIMES_FEW_KEYS = 1.3
MOST_RESTART_SECONDS = 10.0
LEAST_FILES = {"files": 1.0, "cluster": 0.95}
MOST_JAVA_MEGABYTES = 1_000
LEAST_SPEED_OF_HALF_HEAP = 0.9

LEAST_PART_OF_HAND = {"functions": 0.85, "expressions": 0.85, "states": 1.0}
LEAST_TIMES_KEYED = 1.0
MOST_TIMES_KEYED_MEMORY = 1.0

STORE_NAMES = {"sqlite": "SQLite", "mongodb": "MongoDB"}


class Verdict(NamedTuple):
    """One target, what was found, and whether that is enough."""

    what: str
    found: str
    wanted: str
    is_met: bool


def verdicts(figures: Figures) -> list[Verdict]:
    """Compare what there is with the targets."""
    found: list[Verdict] = []
    if "limit" in figures and "jobs" in figures:
        found += _speed(figures["limit"], figures["jobs"])
    if "queue" in figures:
        found += _long_queue(figures["queue"])
    if "dispatchers" in figures:
        found += _more_dispatchers(figures["dispatchers"])
    if "beside" in (peer := figures.get("peers", {}).get("procrastinate", {})):
        found.append(_procrastinate(peer))
    if "http" in figures:
        found.append(_http(figures["http"]))
    if "secured" in figures:
        found += _secured(figures["secured"])
    if "limits" in figures:
        found += _limits(figures["limits"])
    if "naps" in figures:
        found.append(_naps(figures["naps"]))
    if "udp" in figures:
        found += _udp(figures["udp"]["echo"], figures["udp"]["shunter"])
    if "workflows" in figures:
        found += _workflows(figures["workflows"])
    if "steps" in figures:
        found += _steps(figures["steps"])
    if "idle" in figures:
        found += _idle(figures["idle"])
    if "page" in figures:
        found += _page(figures["page"])
    if "flows" in figures:
        found += _flows(figures["flows"])
    if "spark" in figures:
        found += _spark(figures["spark"])
    for part in ("files", "cluster"):
        if part in figures:
            found += _files(part, figures[part])
    if "driver" in figures:
        found += _driver(figures["driver"])
    if "keyed" in figures:
        found += _keyed(figures["keyed"])
    if "streaming" in figures:
        found += _streaming(figures["streaming"])
    if "states" in figures:
        found += _states(figures["states"])
    return found


def _speed(limit: Figures, jobs: Figures) -> Iterator[Verdict]:
    least = max(LEAST_JOBS_PER_SECOND, LEAST_PART_OF_LIMIT * limit["jobs_per_second"])
    part = jobs["jobs_per_second"] / limit["jobs_per_second"]
    yield Verdict(
        "jobs per second",
        f"{jobs['jobs_per_second']:,.0f}, {part:.0%} of the limit",
        f"at least {least:,.0f} (10,000 or 30 % of the limit)",
        jobs["jobs_per_second"] >= least,
    )
    times = jobs["p50_ms"] / limit["p50_ms"]
    yield Verdict(
        "p50 of a single round trip",
        f"{jobs['p50_ms']:.2f} ms, {times:.2f} x the limit's",
        f"at most {MOST_TIMES_LIMIT:g} x the limit's",
        times <= MOST_TIMES_LIMIT,
    )


def _secured(found: Figures) -> Iterator[Verdict]:
    for by, what in (("zmq", "jobs per second with CURVE"), ("http", "POSTs with a token")):
        without, with_keys = found[f"open_{by}"], found[f"secured_{by}"]
        yield Verdict(
            f"{what}, against without keys",
            f"{with_keys / without:.2f} x ({with_keys:,.0f} against {without:,.0f})",
            f"at least {LEAST_PART_WITH_KEYS:g} x",
            with_keys / without >= LEAST_PART_WITH_KEYS,
        )


def _limits(stores: Figures) -> Iterator[Verdict]:
    for store, name in STORE_NAMES.items():
        without, limited = stores[store]["without"], stores[store]["limited"]
        part = limited["jobs_per_second"] / without["jobs_per_second"]
        cpu = _cpu_us(limited) / _cpu_us(without)
        yield Verdict(
            f"jobs per second on {name} under limits that never bind, against without",
            f"{part:.2f} x ({limited['jobs_per_second']:,.0f} against "
            f"{without['jobs_per_second']:,.0f}), {cpu:.2f} x the processor time",
            f"at least {LEAST_PART_WITH_LIMITS:g} x",
            part >= LEAST_PART_WITH_LIMITS,
        )


def _cpu_us(found: Figures) -> float:
    return float(found["cpu_us"] + found["server_cpu_us"])


def _naps(naps: Figures) -> Verdict:
    ours, plain, ideal = naps["ours"], naps["plain"], naps["ideal"]
    return Verdict(
        f"{naps['jobs']:,} coroutines that wait, 500 at once in two processes",
        f"{ours / ideal:.2f} x the ideal {ideal:g} s ({ours / plain:.2f} x plain asyncio)",
        f"at most {MOST_TIMES_IDEAL:g} x the ideal",
        ours / ideal <= MOST_TIMES_IDEAL,
    )


def _long_queue(queue: Figures) -> Iterator[Verdict]:
    yield Verdict(
        f"dispatcher's memory, {queue['queued']:,} jobs queued",
        f"{queue['peak_rss_mb']:.0f} MB at most, {queue['rss_mb']:.0f} MB when filled",
        f"under {MOST_MEGABYTES} MB",
        queue["peak_rss_mb"] < MOST_MEGABYTES,
    )
    for what, key in (("processor time", "cpu_ms"), ("time", "ms")):
        long, short = queue[f"long_{key}"], queue[f"short_{key}"]
        yield Verdict(
            f"{what} a job, {queue['queued']:,} against 1,000 queued",
            f"{long / short:.2f} x ({long:.3f} against {short:.3f} ms)",
            f"at most {MOST_TIMES_SHORT:g} x",
            long / short <= MOST_TIMES_SHORT,
        )


def _more_dispatchers(stores: Figures) -> Iterator[Verdict]:
    for store, name in STORE_NAMES.items():
        speeds = speeds_of(stores.get(store, {}))
        alone = speeds.pop("1", 0.0)
        for count, speed in speeds.items():
            yield Verdict(
                f"jobs per second on {name}, {count} dispatchers against 1",
                f"{speed / alone:.2f} x ({speed:,.0f} against {alone:,.0f})",
                f"at least {LEAST_PART_OF_ONE:g} x",
                speed / alone >= LEAST_PART_OF_ONE,
            )


def _procrastinate(peer: Figures) -> Verdict:
    ours, theirs = peer["beside"]["jobs_per_second"], peer["jobs_per_second"]
    return Verdict(
        "jobs per second on MongoDB, against Procrastinate on PostgreSQL",
        f"{ours / theirs:.1f} x ({ours:,.0f} against {theirs:,.0f})",
        f"at least {LEAST_TIMES_PROCRASTINATE:g} x",
        ours / theirs >= LEAST_TIMES_PROCRASTINATE,
    )


def _http(http: Figures) -> Verdict:
    ours, limit = http["shunter_per_second"], http["limit_per_second"]
    return Verdict(
        "jobs submitted over HTTP",
        f"{ours:,.0f} a second, {ours / limit:.0%} of {limit:,.0f} empty POSTs",
        f"at least {LEAST_PART_OF_EMPTY_POST:.0%} of an empty POST",
        ours / limit >= LEAST_PART_OF_EMPTY_POST,
    )


def _udp(echo: Figures, tasks: Figures) -> Iterator[Verdict]:
    speed, limit = tasks["tasks_per_second"], echo["packets_per_second"] / PACKETS_PER_TASK
    least = max(LEAST_TASKS_PER_SECOND, LEAST_PART_OF_ECHO * limit)
    yield Verdict(
        "tasks per second over UDP",
        f"{speed:,.0f}, {speed / limit:.0%} of an eighth of a bare echo's packets",
        f"at least {least:,.0f} (3,000 or 25 % of the eighth)",
        speed >= least,
    )
    yield Verdict(
        "p50 of a single task over UDP",
        f"{tasks['p50_ms']:.2f} ms",
        f"under {MOST_TASK_MILLISECONDS:g} ms",
        tasks["p50_ms"] < MOST_TASK_MILLISECONDS,
    )


def _workflows(workflows: Figures) -> Iterator[Verdict]:
    for store, name in STORE_NAMES.items():
        if not (found := workflows.get(store)):
            continue
        plain, graphs = found["plain"], found["graphs"]
        yield Verdict(
            f"time of {found['jobs']:,} jobs in graphs against as many plain jobs, on {name}",
            f"{found['times_as_long']:.2f} x ({graphs['jobs_per_second']:,.0f} against "
            f"{plain['jobs_per_second']:,.0f} jobs/s)",
            f"at most {MOST_TIMES_PLAIN:g} x",
            found["times_as_long"] <= MOST_TIMES_PLAIN,
        )
        yield Verdict(
            f"the same in the dispatcher's processor time, on {name}",
            f"{found['times_the_cpu']:.2f} x ({graphs['cpu_us']:.0f} against "
            f"{plain['cpu_us']:.0f} us a job)",
            f"at most {MOST_TIMES_PLAIN:g} x",
            found["times_the_cpu"] <= MOST_TIMES_PLAIN,
        )
        yield Verdict(
            f"an idle dispatcher with {found['parked']:,} parked jobs, on {name}",
            f"{found['idle_share']:.1%} of a core ({found['idle_share_before']:.1%} with none), "
            f"{found['megabytes']:.0f} MB",
            f"under {MOST_PARKED_PART:.0%}, under {MOST_MEGABYTES} MB",
            found["idle_share"] < MOST_PARKED_PART and found["megabytes"] < MOST_MEGABYTES,
        )


def _steps(steps: Figures) -> Iterator[Verdict]:
    """A step is one commit more, so a job with one should cost no more than two plain jobs."""
    stepped = steps["stepped"]
    yield Verdict(
        "jobs with one step against two plain jobs each, many at once",
        f"{steps['against_two_plain']:.2f} x ({stepped['per_second']:,.0f} jobs/s)",
        f"at least {LEAST_STEPPED:g} x",
        steps["against_two_plain"] >= LEAST_STEPPED,
    )
    yield Verdict(
        "the dispatcher's processor time for a job with one step, against two plain jobs",
        f"{steps['cpu_of_two_plain']:.2f} x ({stepped['cpu_us']:.0f} us)",
        f"at most {1 / LEAST_STEPPED:g} x",
        steps["cpu_of_two_plain"] <= 1 / LEAST_STEPPED,
    )
    yield Verdict(
        "how much longer a trip with one step takes, one by one, against a plain trip",
        f"{steps['part_of_a_trip']:.2f} x ({stepped['trip_ms']:.2f} ms in all)",
        f"under {MOST_PART_OF_TRIP:g} x",
        steps["part_of_a_trip"] < MOST_PART_OF_TRIP,
    )


def _idle(idle: Figures) -> Iterator[Verdict]:
    for store, name in STORE_NAMES.items():
        if found := idle.get(store):
            yield Verdict(
                f"an idle dispatcher with {idle['workers']:,} workers, on {name}",
                f"{found['with_all']:.1%} of a core ({found['with_none']:.1%} with none)",
                f"under {MOST_IDLE_PART:.0%}",
                found["with_all"] < MOST_IDLE_PART,
            )


def _page(page: Figures) -> Iterator[Verdict]:
    for store, name in STORE_NAMES.items():
        if found := page.get(store):
            slowest = max(found["views_ms"], key=found["views_ms"].get)
            yield Verdict(
                f"the slowest view of the page with {page['jobs']:,} jobs, on {name}",
                f"{found['slowest_ms']:.0f} ms ({slowest})",
                f"under {MOST_VIEW_MILLISECONDS} ms",
                found["slowest_ms"] < MOST_VIEW_MILLISECONDS,
            )
    found = page["sqlite"]
    yield Verdict(
        f"jobs per second with {page['pages']} pages open, of those without",
        f"{found['part']:.1%} (rounds: {min(found['parts']):.1%} to {max(found['parts']):.1%}"
        + (
            f"; without any: {found['part_of_nothing']:.1%})" if "part_of_nothing" in found else ")"
        ),
        f"at least {LEAST_PART_WATCHED:.0%} in every round",
        min(found["parts"]) >= LEAST_PART_WATCHED,  # a median of rounds that differ shows nothing
    )
    yield Verdict(
        "weight of the first page",
        f"{found['first_page_bytes'] / 1000:.0f} kB",
        f"under {MOST_FIRST_PAGE_BYTES / 1000:.0f} kB",
        found["first_page_bytes"] < MOST_FIRST_PAGE_BYTES,
    )


def _flows(flows: Figures) -> Iterator[Verdict]:
    theirs = flows.get("bytewax")
    for way, least in LEAST_TIMES_BYTEWAX.items() if theirs else ():
        yield Verdict(
            f"events per second, {way.replace('_', ' ')}, against Bytewax",
            f"{flows[way] / theirs:.2f} x ({flows[way]:,.0f} against {theirs:,.0f})",
            f"at least {least:g} x",
            flows[way] / theirs >= least,
        )
    yield Verdict(
        f"p99 from source to sink, {flows['rate']:,} events a second",
        f"{flows['p99_ms']:.2f} ms",
        f"under {MOST_EVENT_MILLISECONDS:g} ms",
        flows["p99_ms"] < MOST_EVENT_MILLISECONDS,
    )
    times = flows["many_mb"] / flows["few_mb"]
    yield Verdict(
        f"engines' memory, {flows['many']:,} events against a tenth of them",
        f"{times:.2f} x ({flows['many_mb']:.0f} against {flows['few_mb']:.0f} MB)",
        f"at most {MOST_TIMES_FEW:g} x",
        times <= MOST_TIMES_FEW,
    )


def _streaming(streaming: Figures) -> Iterator[Verdict]:
    ours, theirs = streaming["ours"], streaming["by_hand"]
    yield Verdict(
        f"median micro-batch of {streaming['events']:,} events, against a query by hand",
        f"{ours / theirs:.2f} x ({ours * 1000:.0f} against {theirs * 1000:.0f} ms)",
        f"at most {MOST_TIMES_OF_HAND:g} x",
        ours / theirs <= MOST_TIMES_OF_HAND,
    )


def _states(states: Figures) -> Iterator[Verdict]:
    few, many = states["few"], states["many"]
    yield Verdict(
        f"median micro-batch of {states['events']:,} events at {states['keys']:,} keys, against "
        "1,000 keys",
        f"{many / few:.2f} x ({many * 1000:.0f} against {few * 1000:.0f} ms)",
        f"at most {MOST_TIMES_FEW_KEYS:g} x",
        many / few <= MOST_TIMES_FEW_KEYS,
    )
    yield Verdict(
        f"a stream with {states['keys']:,} keys started again, to its first batch",
        f"{states['restart']:.1f} s",
        f"under {MOST_RESTART_SECONDS:g} s",
        states["restart"] < MOST_RESTART_SECONDS,
    )


def _spark(spark: Figures) -> Iterator[Verdict]:
    for way, least in LEAST_PART_OF_HAND.items():
        ours, theirs = spark[f"{way}_flow"], spark[f"{way}_hand"]
        yield Verdict(
            f"events per second on Spark, with {way}, against a program by hand",
            f"{ours / theirs:.2f} x ({ours:,.0f} against {theirs:,.0f})",
            f"at least {least:g} x",
            ours / theirs >= least,
        )


def _files(part: str, files: Figures) -> Iterator[Verdict]:
    where = "on a cluster of two workers" if part == "cluster" else "on Spark"
    for shape, label in (("narrow", "3 columns"), ("wide", "100 columns")):
        ours, theirs = files[f"{shape}_flow"], files[f"{shape}_hand"]
        yield Verdict(
            f"a function for each row of {label}, Parquet to Parquet, {where}, against by hand",
            f"{ours / theirs:.2f} x ({ours:,.0f} against {theirs:,.0f} rows/s)",
            f"at least {LEAST_FILES[part]:g} x",
            ours / theirs >= LEAST_FILES[part],
        )


def _driver(driver: Figures) -> Iterator[Verdict]:
    what = f"memory of the driver's Java, {driver['rows']:,} rows, Parquet to Parquet"
    for way, where in (("default", "on Spark"), ("cluster", "on a cluster of two workers")):
        yield Verdict(
            f"{what}, {where}",
            f"{driver[way]['java_mb']:,.0f} MB",
            f"under {MOST_JAVA_MEGABYTES:,} MB",
            driver[way]["java_mb"] < MOST_JAVA_MEGABYTES,
        )
    small = driver["small"]
    times = small["rows_per_second"] / driver["default"]["rows_per_second"]
    yield Verdict(
        f"{what}, with half of the default heap",
        f"{small['java_mb']:,.0f} MB, {times:.2f} x as fast",
        f"under {MOST_JAVA_MEGABYTES:,} MB, at least {LEAST_SPEED_OF_HALF_HEAP:g} x as fast",
        small["java_mb"] < MOST_JAVA_MEGABYTES and times >= LEAST_SPEED_OF_HALF_HEAP,
    )


def _keyed(keyed: Figures) -> Iterator[Verdict]:
    for way, text in (("straight", ""), ("mapped", " behind a function")):
        ours, theirs = keyed[f"{way}_flow"], keyed[f"{way}_hand"]
        yield Verdict(
            f"events per second, a state for each of {keyed['keys']:,} keys{text}, against by hand",
            f"{ours / theirs:.2f} x ({ours:,.0f} against {theirs:,.0f})",
            f"at least {LEAST_TIMES_KEYED:g} x",
            ours / theirs >= LEAST_TIMES_KEYED,
        )
    ours, theirs = keyed["flow_mb"], keyed["hand_mb"]
    yield Verdict(
        f"memory of a task with a state for each of {keyed['keys']:,} keys, against by hand",
        f"{ours / theirs:.2f} x ({ours:.0f} against {theirs:.0f} MB)",
        f"at most {MOST_TIMES_KEYED_MEMORY:g} x",
        ours / theirs <= MOST_TIMES_KEYED_MEMORY,
    )


def speeds_of(store: Figures) -> dict[str, float]:
    """Return jobs per second by the number of dispatchers."""
    return {count: found["jobs_per_second"] for count, found in store.get("by_count", {}).items()}
