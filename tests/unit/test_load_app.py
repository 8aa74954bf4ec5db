"""How an app is found: by module or by file, with or without its name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.app import load_app
from shunter.errors import AppError

ONE = "from shunter.app import App\n{name} = App()\n@{name}.job\ndef work(): ...\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def types(spec: str) -> list[str]:
    return [handler.type for handler in load_app(spec).handlers()]


@pytest.mark.parametrize("spec", ["jobs_one:app", "jobs_one", "jobs_one.py:app", "./jobs_one.py"])
def test_an_app_is_found_by_module_and_by_file(here: Path, spec: str) -> None:
    (here / "jobs_one.py").write_text(ONE.format(name="app"))

    assert types(spec) == ["work"]


def test_the_only_app_needs_no_name_whatever_it_is_called(here: Path) -> None:
    (here / "jobs_two.py").write_text(ONE.format(name="mine") + "alias = mine\n")

    assert types("jobs_two") == ["work"]


def test_a_file_may_import_its_neighbours(here: Path) -> None:
    (here / "deep").mkdir()
    (here / "deep" / "neighbour_three.py").write_text(ONE.format(name="app"))
    (here / "deep" / "jobs_three.py").write_text("from neighbour_three import app\n")

    assert types("deep/jobs_three.py") == ["work"]


def test_a_file_named_like_a_module_that_is_loaded_is_still_found(here: Path) -> None:
    (here / "json.py").write_text(ONE.format(name="app"))

    assert types("json.py") == ["work"]
    assert hasattr(sys.modules["json"], "dumps")


def test_a_file_is_imported_once(here: Path) -> None:
    (here / "jobs_four.py").write_text(ONE.format(name="app"))

    assert load_app("jobs_four.py") is load_app("jobs_four.py:app")


@pytest.mark.parametrize(
    ("spec", "source", "message"),
    [
        ("", "", "names no app"),
        (":app", "", "names no app"),
        ("jobs_bad:", "", "names no app"),
        ("nowhere_at_all", "", "there is no module 'nowhere_at_all'"),
        ("nowhere/at_all.py", "", "there is no file /.*nowhere/at_all.py"),
        ("jobs_bad", "import nowhere_at_all", "importing jobs_bad raised ModuleNotFoundError"),
        ("jobs_bad.py", "1 / 0", "importing .*jobs_bad.py raised ZeroDivisionError"),
        ("jobs_bad", "raise SystemExit(2)", "raised SystemExit: 2"),
        ("jobs_bad", "def broken(:", "raised SyntaxError"),
        ("jobs_bad", "x = 1", "there is no App in there; write app = shunter.App"),
        ("jobs_bad:x", "x = 1", "'x' is a int, not an App"),
        ("jobs_bad:y", ONE.format(name="mine"), "'y' is missing; apps in there: mine"),
        (
            "jobs_bad",
            ONE.format(name="one") + ONE.format(name="two"),
            "apps in there: one, two; say which: jobs_bad:one",
        ),
    ],
)
def test_each_way_to_fail_says_what_is_wrong(
    here: Path, spec: str, source: str, message: str
) -> None:
    (here / "jobs_bad.py").write_text(source)

    with pytest.raises(AppError, match=message):
        load_app(spec)


def test_an_import_error_keeps_its_cause(here: Path) -> None:
    (here / "jobs_bad.py").write_text("1 / 0")

    with pytest.raises(AppError) as caught:
        load_app("jobs_bad")

    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("text", "line"), [("x = 1\n\ny = undefined\n", 3), ("x = 1\ndef f(:\n", 2)]
)
def test_an_app_that_can_not_be_imported_is_told_with_its_line(
    tmp_path: Path, text: str, line: int
) -> None:
    place = tmp_path / "broken_with_line.py"
    place.write_text(text)

    with pytest.raises(AppError, match=f"at {place}:{line}; correct it there"):
        load_app(str(place))


def test_a_misspelt_option_names_handler_and_line_once_and_what_was_meant(tmp_path: Path) -> None:
    path = tmp_path / "misspelt_app.py"
    path.write_text("from shunter import App\napp = App()\n@app.job(priorty=3)\ndef add(): ...\n")

    with pytest.raises(AppError) as raised:
        load_app(str(path))

    assert "handler 'add'" in str(raised.value)
    assert "priorty: no such option" in str(raised.value)
    assert "did you mean 'priority'?" in str(raised.value)
    assert str(raised.value).count(f"{path}:3") == 1


@pytest.mark.parametrize(
    "line",
    [
        'import json; json.loads("{")',  # raised in the standard library
        "app.setup(lambda: None)",  # raised in Shunter
        "import rich.color; rich.color.Color.parse('no colour')",  # raised in a package
    ],
)
def test_an_error_in_a_library_is_told_with_the_line_of_the_app_that_led_there(
    here: Path, line: str
) -> None:
    (here / "jobs_nine.py").write_text(f"from shunter import App\napp = App()\n{line}\n")

    with pytest.raises(AppError) as raised:
        load_app("jobs_nine.py")

    assert f"{here / 'jobs_nine.py'}:3; correct it there" in str(raised.value)
