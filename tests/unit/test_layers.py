"""Imports point down only, what decides is pure, and files stay readable.

The tables here and in `layer_table.py` are the whole rule.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

from shunter.dispatch.dispatcher import Dispatcher
from unit.layer_table import LAYERS

PROJECT = Path(__file__).parents[2]
SOURCE = PROJECT / "src" / "shunter"

IO = {
    "aiohttp", "http", "multiprocessing", "os", "pathlib", "psutil", "pymongo", "selectors",
    "signal", "socket", "sqlite3", "ssl", "starlette", "subprocess", "tempfile", "threading",
    "urllib", "uvicorn", "zmq",
}  # fmt: skip

IMPURE = IO | {
    "asyncio", "concurrent", "importlib", "logging", "random", "secrets", "shunter.settings",
    "shunter.settings_sources", "structlog", "time", "uuid",
}  # fmt: skip

PURE_DISPATCH = (
    "activity", "alarm_clock", "arrivals", "callback_places", "callbacks", "dependents", "effects",
    "graph_intake", "intake", "journals", "limit_book", "membership", "parks", "placement", "plan",
    "planner", "roster", "rules", "settlement", "shared_workers", "state", "store_health",
    "timetable", "timings", "turn", "verdict", "view",
)  # fmt: skip

PURE_PAGE = ("changes", "figures", "filters", "flow_drawing", "limit_form", "overview", "plots",
    "run_drawing", "schedule_form",
    "schedule_rows", "session", "timeline", "value_tree", "worker_rows")  # fmt: skip

FORBIDDEN = {
    "model": IMPURE,
    "wire": IMPURE,
    **{f"dispatch.{name}": IMPURE for name in PURE_DISPATCH},
    "why": IMPURE - {"asyncio"},  # one of them reads the store
    **{f"page.{name}": IMPURE - {"urllib"} for name in PURE_PAGE},
    "flow.graph": IMPURE - {"importlib", "uuid"},  # sketches when first used; UUIDs as keys
    "flow.runtime": IMPURE - {"uuid"},  # it reads UUIDs and makes none
    "flow.pictures": IMPURE,
    "flow.runners.engines.links": IMPURE,
    "flow.runners.engines.messages": IMPURE,
    "flow.runners.spark.batch.chains": IMPURE,
    "flow.runners.spark.columns.column_types": IMPURE,
    "flow.runners.spark.columns.native_stages": IMPURE,
    "flow.runners.spark.columns.plan_rewriter": IMPURE,
    "flow.runners.spark.session.java_noise": IMPURE,
    "flow.runners.spark.stream.compaction": IMPURE,
    "flow.runners.spark.stream.differences": IMPURE,
    "flow.runners.spark.stream.segments": IMPURE,
    "flow.runners.spark.stream.source_lag": IMPURE,
    "flow.runners.spark.session.memory_faults": IMPURE,
    "flow.runners.spark.stream.fitness": IMPURE,
    "flow.sources.since": IMPURE,
    "gateway.zmq.undelivered_results": IMPURE,
    "gateway.http.reports": IMPURE,
    "reporting.document": IMPURE,
    "reporting.wording": IMPURE,
    "rerun.staging_names": IMPURE,
    "worker.zmq.account": IMPURE,
    "worker.zmq.credits": IMPURE,
    "worker.http.holdings": IMPURE,
    "worker.http.http_lease": IMPURE,
    "worker.http.offers": IMPURE,
    "worker.http.pending_reports": IMPURE,
    "worker.http.schedule": IMPURE,
    "worker.http.verdicts": IMPURE,
    "worker.zmq.origins": IMPURE,
    "worker.zmq.outbox": IMPURE,
    **dict.fromkeys(("worker.pool.child_loads", "worker.pool.escalation"), IMPURE),
    "worker.pool.exits": IMPURE - {"signal"},
    "worker.pool.frames": IMPURE,
    "worker.pool.job_window": IMPURE,
    "worker.pool.runs": IMPURE,
    "worker.pool.starts": IMPURE,
    "worker.pool.unaccounted_runs": IMPURE,
    "worker.zmq.shares": IMPURE,
    "worker.zmq.shown_secrets": IMPURE,
    "worker.udp.completions": IMPURE,
    "worker.udp.calculator_session": IMPURE,
    "worker.udp.session_count": IMPURE,
    "shown_text": IMPURE,
    "codec": IMPURE,
    "store.memory": IO | {"shunter.settings"},
}

SEEN_BY_GATEWAYS = {
    "id", "now", "rules", "store", "store_health", "counters", "turns", "view", "is_full",
    "has_arrivals", "has_work",
}  # fmt: skip
"""What a gateway may look at in its dispatcher; the rest that it may use are methods that put
arrivals in."""

LONGEST_SOURCE = 600
LONGEST_TEST = 500


def covers(name: str, module: str) -> bool:
    return module == name or module.startswith(f"{name}.")


@functools.lru_cache(maxsize=4)
def parsed(source: str) -> ast.AST:
    """Read a module once for all of its rules."""
    return ast.parse(source)


def imports_of(module: str, tree: ast.AST, *, is_package: bool = False) -> Iterator[str]:
    """Yield the full name of all that a module imports, wherever in it that happens."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                parents = f"shunter.{module}".removesuffix(".__init__").split(".")
                kept = len(parents) - node.level + is_package
                origin = ".".join([*parents[:kept], *filter(None, [origin])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute | ast.Name) and "import_module" in ast.unparse(node):
            yield from modules_named_in(tree)


def modules_named_in(tree: ast.AST) -> Iterator[str]:
    """Yield our modules that are named in texts: what is imported by name is imported, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            path = SOURCE.parent / node.value.replace(".", "/")
            if node.value.startswith("shunter.") and (
                path.is_dir() or path.with_suffix(".py").is_file()
            ):
                yield node.value


def upward_imports(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """Say which imports of a module (named without `shunter.`) its layer may not have."""
    layer = max((name for name in LAYERS if covers(name, module)), key=len, default="")
    if not layer:
        return [f"{module}: its layer is not in the table of layers"]
    wrong = []
    for imported in imports_of(module, parsed(source), is_package=is_package):
        if not covers("shunter", imported):
            continue
        inner = imported.removeprefix("shunter").lstrip(".")
        inner = inner if inner.partition(".")[0] in LAYERS else "__init__"
        if not any(covers(allowed, inner) for allowed in LAYERS[layer]):
            wrong.append(f"{module}: layer {layer!r} may not import {imported}")
    return wrong


def _without_type_checking(path: Path) -> ast.AST:
    """Return a module without what is imported for annotations alone."""

    class Cut(ast.NodeTransformer):
        def visit_If(self, node: ast.If) -> ast.AST:
            is_for_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            return ast.Pass() if is_for_types else self.generic_visit(node)

    return Cut().visit(ast.parse(path.read_text(encoding="utf-8")))


def _home_of(imported: str, files: Collection[str]) -> str | None:
    """Return the module that an import is of: itself, or the one that has the name in it."""
    parent = imported.rpartition(".")[0]
    return imported if imported in files else parent if parent in files else None


def cycle_in(graph: Mapping[str, Collection[str]]) -> list[str]:
    """Return the modules of one cycle, the first again at its end."""
    done: set[str] = set()

    def visited(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module not in done:
            for other in sorted(graph[module]):
                if found := visited(other, [*path, module]):
                    return found
            done.add(module)
        return []

    return next((found for module in sorted(graph) if (found := visited(module, []))), [])


def impure_imports(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """Say which imports make a module impure that must be pure."""
    forbidden = {name for key, names in FORBIDDEN.items() if covers(key, module) for name in names}
    return [
        f"{module}: is pure and may not import {imported}"
        for imported in imports_of(module, parsed(source), is_package=is_package)
        if any(covers(name, imported) for name in forbidden)
    ]


def environment_reads(module: str, source: str) -> list[str]:
    """Say where a module reads the environment while it is imported."""

    def visited(node: ast.AST) -> Iterator[ast.AST]:
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            children = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
            children += getattr(node, "decorator_list", [])
        else:
            children = list(ast.iter_child_nodes(node))
        for child in children:
            yield from visited(child)

    names = {"environ", "environb", "getenv", "getenvb"}
    return [
        f"{module}: line {node.lineno} reads the environment at import"
        for node in visited(parsed(source))
        if (
            isinstance(node, ast.Attribute)
            and node.attr in names
            and ast.unparse(node.value) == "os"
        )
        or (isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load))
    ]


def peeks(module: str, source: str) -> list[str]:
    """Say where a gateway looks at what is its dispatcher's own."""
    return [
        f"{module}: line {node.lineno} looks at {ast.unparse(node)}"
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Attribute)
        and ast.unparse(node.value) in {"dispatcher", "self.dispatcher", "self._dispatcher"}
        and node.attr not in SEEN_BY_GATEWAYS
        and (node.attr.startswith("_") or not inspect.isfunction(getattr(Dispatcher, node.attr, 0)))
    ]


def module_name(path: Path) -> str:
    name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    return name.removesuffix(".__init__")


def faults_in(path: Path) -> list[str]:
    module, source = module_name(path), path.read_text(encoding="utf-8")
    is_package = path.name == "__init__.py"
    return [
        *upward_imports(module, source, is_package=is_package),
        *impure_imports(module, source, is_package=is_package),
        *environment_reads(module, source),
    ]


def files_longer_than(limit: int, folder: Path) -> list[str]:
    lengths = {path: len(path.read_bytes().splitlines()) for path in folder.rglob("*.py")}
    return [f"{path.name}: {length} lines" for path, length in lengths.items() if length > limit]


# ---- the package keeps the rules


def test_a_module_imports_only_what_its_layer_may() -> None:
    assert [fault for path in SOURCE.rglob("*.py") for fault in faults_in(path)] == []


def test_a_gateway_sees_no_more_of_its_dispatcher_than_it_may() -> None:
    paths = (SOURCE / "gateway").rglob("*.py")
    assert [peek for path in paths for peek in peeks(module_name(path), path.read_text())] == []


@pytest.mark.parametrize(("folder", "limit"), [("src", LONGEST_SOURCE), ("tests", LONGEST_TEST)])
def test_no_file_is_too_long_to_read(folder: str, limit: int) -> None:
    assert files_longer_than(limit, PROJECT / folder) == []


def test_the_table_of_layers_points_down_only() -> None:
    for layer, allowed in LAYERS.items():
        for name in allowed:
            lower = name.partition(".")[0]
            assert lower == layer.partition(".")[0] or layer not in {
                n.partition(".")[0] for n in LAYERS[lower]
            }


def test_the_floors_of_flows_have_no_cycle() -> None:
    files = {module_name(path): path for path in (SOURCE / "flow").rglob("*.py")}
    graph = {
        module: {
            home
            for imported in imports_of(module, _without_type_checking(path))
            if (home := _home_of(imported.removeprefix("shunter."), files)) not in (None, module)
        }
        for module, path in files.items()
    }

    assert cycle_in(graph) == []


def test_a_cycle_is_found_also_where_an_import_is_late() -> None:
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


# ---- the rules can be broken


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("model.job", "import shunter.store.port"),
        ("model.job", "from shunter.wire import messages"),
        ("model.job", "from shunter import wire"),
        ("model.job", "from ..wire import messages"),
        ("model.job", "def late():\n    from shunter.store import port"),
        ("model.job", "def late():\n    return importlib.import_module('shunter.store.port')"),
        ("dispatch.turn", "KINDS = {'x': 'shunter.wire.frames'}\nload = import_module"),
        ("model.job", "from shunter.settings import Settings"),
        ("model.job", "import shunter"),
        ("model.job", "from shunter import App"),
        ("errors", "from shunter.model.job import Job"),
        ("settings", "from shunter.settings_sources import load_settings"),
        ("wire.frames", "from shunter.store.port import Store"),
        ("store.sqlite.writer", "from shunter.dispatch.sweep import Sweep"),
        ("store.sqlite.writer", "from ...dispatch import sweep"),
        ("dispatch.board", "from shunter.store.memory import MemoryStore"),
        ("dispatch.board", "from shunter.store import memory"),
        ("dispatch.board", "from shunter.settings import Settings"),
        ("dispatch.board", "from shunter.wire.messages import Hello"),
        ("dispatch.board", "def late():\n    from shunter.wire.udp import naming"),
        ("dispatch.board", "import shunter.net.transport"),
        ("dispatch.board", "def late():\n    from ..gateway import service"),
        ("store.port", "def late():\n    from shunter.wire import frames"),
        ("store.port", "import shunter.net"),
        ("gateway.zmq", "from shunter.store.memory import MemoryStore"),
        ("worker.pool.process_pool", "from shunter.dispatch.board import Board"),
        ("client.session", "from shunter.settings import Settings"),
        ("testing", "from shunter.cli import main"),
        ("misc.things", "import re"),
    ],
)
def test_an_import_that_points_up_is_found(module: str, source: str) -> None:
    assert len(upward_imports(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("model.job", "from shunter.errors import JobError\nfrom shunter.model.retry import Retry"),
        ("model.job", "from . import retry\nfrom .retry import Retry"),
        ("dispatch.board", "from shunter.store.port import Store\nfrom shunter.store import port"),
        ("store.memory", "from ..model import job"),
        ("cli.main", "import shunter\nfrom shunter import App, gateway"),
        ("worker.pool.process_pool", "import shunterly\nimport asyncio"),
    ],
)
def test_an_import_that_points_down_is_left_alone(module: str, source: str) -> None:
    assert upward_imports(module, source) == []


def test_a_package_counts_its_dots_from_itself() -> None:
    assert upward_imports("model", "from .job import Job", is_package=True) == []
    assert len(upward_imports("model", "from ..wire import x", is_package=True)) == 1
    assert upward_imports("__init__", "from .app import App", is_package=True) == []
    assert len(upward_imports("__init__", "from .cli import main", is_package=True)) == 1


@pytest.mark.parametrize("looked_at", ["state", "state.roster", "_perform", "callbacks.offer"])
def test_a_look_at_what_is_the_dispatchers_own_is_found(looked_at: str) -> None:
    assert len(peeks("gateway.zmq", f"x = self._dispatcher.{looked_at}")) == 1
    assert len(peeks("gateway.zmq", f"x = dispatcher.{looked_at}")) == 1


def test_a_gateway_may_put_arrivals_in_and_look_at_what_it_is_shown() -> None:
    source = "self._dispatcher.cancel([], f)\nx = self._dispatcher.view.connected"

    assert peeks("gateway.zmq", source) == []


@pytest.mark.parametrize("module", ["model.job", "wire.frames", "worker.pool.job_window"])
def test_an_impure_import_is_found(module: str) -> None:
    for name in sorted(IMPURE):
        parent, _, last = name.rpartition(".")

        assert len(impure_imports(module, f"import {name}")) == 1, name
        assert len(impure_imports(module, f"from {name} import something")) == 1, name
        assert len(impure_imports(module, f"def late():\n    import {name}.inner")) == 1, name
        if parent:
            assert len(impure_imports(module, f"from {parent} import {last}")) == 1, name


def test_an_import_is_impure_only_where_purity_is_asked_for() -> None:
    assert impure_imports("gateway.zmq", "import asyncio, zmq, time") == []
    assert impure_imports("store.memory", "import asyncio") == []
    assert len(impure_imports("store.memory", "import sqlite3")) == 1
    assert impure_imports("model.job", "import re, timeit, typing") == []


@pytest.mark.parametrize(
    "source",
    [
        "import os\nhome = os.environ['HOME']",
        "import os\nhome = os.getenv('HOME')",
        "from os import environ\nhome = environ.get('HOME')",
        "import os\nclass Place:\n    home = os.environ['HOME']",
        "import os\ndef place(home=os.environ['HOME']): ...",
        "import os\nif os.environ.get('DEBUG'):\n    loud = True",
    ],
)
def test_reading_the_environment_at_import_is_found(source: str) -> None:
    assert len(environment_reads("cli.main", source)) == 1


def test_reading_the_environment_when_called_is_left_alone() -> None:
    source = "import os\ndef main(): return os.environ\nlater = lambda: os.getenv('HOME')"

    assert environment_reads("cli.main", source) == []


def test_a_file_that_is_too_long_is_found(tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text("x = 1\n" * 3)
    (tmp_path / "long.py").write_text("x = 1\n" * 4)

    assert files_longer_than(3, tmp_path) == ["long.py: 4 lines"]
