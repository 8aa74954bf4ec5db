"""How a flow is found: by file or by module, with or without its name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.errors import FlowError
from shunter.flow.loader import forget_modules, load

ONE = """\
from dataclasses import dataclass
from shunter.flow.flow import Flow

@dataclass
class Reading:
    machine: str

def parse(line):
    return Reading(line)

{name} = Flow("readings")
{name}.source(["a"]).map(parse).sink(print)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    "spec", ["flows_one:flow", "flows_one", "flows_one.py:flow", "./flows_one.py"]
)
def test_a_flow_is_found_by_module_and_by_file(here: Path, spec: str) -> None:
    file = here / "flows_one.py"
    file.write_text(ONE.format(name="flow"))

    flow = load(spec)

    assert flow.name == "readings"
    assert flow.file == str(file)
    assert flow.stage("parse").where.file == str(file)


def test_the_only_flow_needs_no_name_whatever_it_is_called(here: Path) -> None:
    (here / "flows_two.py").write_text(ONE.format(name="mine") + "alias = mine\n")

    assert load("flows_two").name == "readings"


def test_among_several_flows_one_must_be_named(here: Path) -> None:
    (here / "flows_three.py").write_text(ONE.format(name="one") + "two = Flow('two')\n")

    assert load("flows_three.py:two").name == "two"
    with pytest.raises(FlowError, match=r"flows in there: one, two; say which: flows_three.py:one"):
        load("flows_three.py")


def test_a_file_without_a_flow_says_what_to_write(here: Path) -> None:
    (here / "flows_none.py").write_text("x = 1\n")

    with pytest.raises(FlowError, match=r'there is no Flow in there; write flow = Flow\("name"\)'):
        load("flows_none")


@pytest.mark.parametrize(
    ("name", "message"),
    [("nothing", "'nothing' is missing; flows in there: flow"), ("parse", "is a function, not a")],
)
def test_a_name_that_is_no_flow_is_refused(here: Path, name: str, message: str) -> None:
    (here / "flows_four.py").write_text(ONE.format(name="flow"))

    with pytest.raises(FlowError, match=message):
        load(f"flows_four:{name}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "names no flow; write path/to/file.py:name"),
        ("flows:", "names no flow"),
        (":flow", "names no flow"),
        ("missing.py", "there is no file .*missing.py; check the path"),
        ("folder/missing:flow", "there is no file"),
        ("missing_module", "there is no module 'missing_module'"),
        ("missing_package.module", "there is no module 'missing_package.module'"),
    ],
)
def test_what_is_not_there_is_refused(spec: str, message: str) -> None:
    with pytest.raises(FlowError, match=message):
        load(spec)


@pytest.mark.parametrize("spec", ["broken", "broken.py"])
@pytest.mark.parametrize(
    ("code", "line", "message"),
    [
        ("x = 1\n\nraise ValueError('not today')\n", 3, "raised ValueError: not today; correct it"),
        ("import json\njson.loads('{')\n", 2, "raised JSONDecodeError"),
        ("def late():\n    1 / 0\n\nlate()\n", 2, "raised ZeroDivisionError"),
        ("x = 1\ndef :\n", 2, "raised SyntaxError"),
        (
            "import missing_thing\n",
            1,
            "raised ModuleNotFoundError: No module named 'missing_thing'",
        ),
        ("raise SystemExit(3)\n", 1, "raised SystemExit: 3"),
        ("import neighbour_broken\n", 1, "raised KeyError: 'x'"),
    ],
)
def test_a_file_that_fails_to_import_is_blamed_with_its_line(
    here: Path, spec: str, code: str, line: int, message: str
) -> None:
    (here / "broken.py").write_text(code)
    (here / "neighbour_broken.py").write_text("{}['x']\n")
    blamed = "neighbour_broken.py" if "neighbour" in code else "broken.py"

    with pytest.raises(FlowError) as caught:
        load(spec)

    assert message in str(caught.value)
    assert caught.value.place == f"{here / blamed}:{line}"
    assert "broken" not in sys.modules


def test_a_flow_that_is_built_wrongly_says_so_itself(here: Path) -> None:
    (here / "flows_wrong.py").write_text(
        "from shunter import Flow\nflow = Flow('wrong')\nflow.source([1], workers=2)\n"
    )

    with pytest.raises(FlowError, match="2 workers, but this source can't be split") as caught:
        load("flows_wrong.py")

    assert caught.value.place == f"{here / 'flows_wrong.py'}:3"


def test_a_file_named_like_a_module_of_python_is_loaded_all_the_same(here: Path) -> None:
    (here / "json.py").write_text(ONE.format(name="flow"))

    assert load("json.py").file == str(here / "json.py")


def test_a_file_that_changes_within_a_second_is_loaded_as_it_is(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    before, file = set(sys.modules), here / "flows_quick.py"
    for name in ("one", "two"):
        file.write_text(f"from shunter import Flow\nflow = Flow({name!r})\n")
        os.utime(file, (1_800_000_000, 1_800_000_000))

        assert load("flows_quick.py").name == name
        forget_modules(before)


def test_a_file_is_imported_once(here: Path) -> None:
    (here / "flows_once.py").write_text(ONE.format(name="flow"))

    assert load("flows_once.py") is load("flows_once:flow")


# ---- the same everywhere


PRINT = """\
import sys
from shunter.flow.loader import forget_modules, load
flow = load(sys.argv[1])
print(flow.fingerprint(), sorted(flow.types))
"""


def in_a_process(spec: str, folder: Path, *, seed: str = "1") -> str:
    done = subprocess.run(
        [sys.executable, "-c", PRINT, spec],
        cwd=folder,
        env={"PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_fingerprint_and_types_are_the_same_however_and_wherever_a_flow_is_loaded(
    here: Path,
) -> None:
    for folder in (here, here / "other"):
        folder.mkdir(exist_ok=True)
        (folder / "flows_five.py").write_text(ONE.format(name="flow"))

    said = {
        in_a_process("flows_five", here),
        in_a_process("flows_five.py:flow", here, seed="2"),
        in_a_process("other/flows_five.py", here),
        in_a_process("flows_five", here / "other"),
    }

    assert len(said) == 1
    assert said.pop().endswith("['flow:Reading']\n")


def test_a_flow_that_is_run_as_a_script_has_the_same_types(here: Path) -> None:
    file = here / "flows_six.py"
    file.write_text(ONE.format(name="flow") + "print(list(flow.types))\n")
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True)

    assert done.stdout == f"{list(load('flows_six.py').types)}\n"


def test_a_change_in_the_file_or_in_a_file_of_its_functions_changes_the_fingerprint(
    here: Path,
) -> None:
    main, other = here / "flows_seven.py", here / "functions_seven.py"
    main.write_text(
        "from shunter import Flow\nimport functions_seven, json\n"
        "flow = Flow('seven')\n"
        "flow.source(['1']).map(functions_seven.work).map(json.loads).sink(print)\n"
    )
    other.write_text("def work(event): return event\n")
    (here / "unrelated.py").write_text("")
    first = in_a_process("flows_seven.py", here)

    (here / "unrelated.py").write_text("x = 1")
    assert in_a_process("flows_seven.py", here) == first
    other.write_text("def work(event): return [event]\n")
    second = in_a_process("flows_seven.py", here)
    main.write_text(main.read_text() + "# a remark\n")
    third = in_a_process("flows_seven.py", here)

    assert len({first, second, third}) == 3
    assert [name for name, _ in load("flows_seven.py").code] == [
        "flows_seven.py",
        "functions_seven.py",
    ]
