"""What `make release` decides, tried on small texts; and that pins and hashes agree."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from importlib import metadata

import pytest

from deploy.settings_files import PROJECT

sys.path.insert(0, str(PROJECT))
release = importlib.import_module("tools.release")
pin_hashes = importlib.import_module("tools.pin_hashes")
try_container = importlib.import_module("tools.try_container")

HASHED = (pin_hashes.ALL, pin_hashes.CORE)


def hashed_pins(text: str) -> dict[str, str]:
    return dict(re.findall(r"^(\S+)==(\S+) \\$", text, flags=re.MULTILINE))


def test_the_version_is_that_of_the_changelog() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    changelog = (PROJECT / "CHANGELOG.md").read_text()

    assert list(release.version_faults(project["version"], changelog)) == []
    assert list(release.version_faults("0.0.1", changelog)) != []
    assert list(release.version_faults("0.1.0", "# Changelog\n")) != []


def test_an_entry_without_a_date_is_told_apart() -> None:
    assert not release.is_dated("## 1.2.3, unreleased\n\n## 1.2.2, 2026-01-02\n")
    assert release.is_dated("## 1.2.3, 2026-11-17\n")


@pytest.mark.parametrize("file", HASHED, ids=lambda file: file.name)
def test_each_pin_has_its_hashes_and_no_index_is_named(file: object) -> None:
    text = file.read_text()  # type: ignore[attr-defined]
    entries = re.split(r"^(?=\S+==)", text, flags=re.MULTILINE)[1:]

    assert entries
    for entry in entries:
        assert re.fullmatch(r"\S+==\S+( \\\n    --hash=sha256:[0-9a-f]{64})+\n", entry), entry
    assert "://" not in text
    assert "--index" not in text


def test_the_hashed_pins_are_those_that_are_tested() -> None:
    pins = pin_hashes.pins_of(pin_hashes.PINS.read_text())
    core = hashed_pins(pin_hashes.CORE.read_text())

    assert hashed_pins(pin_hashes.ALL.read_text()) == pins, "type: make hashes"
    assert core.items() <= pins.items()
    assert set(core) == pin_hashes.core_names(pins), "type: make hashes"


def test_what_is_needed_is_found_through_what_needs_it() -> None:
    requires = {"b": ["c>=1", "d; extra == 'x'"], "c": ["b"], "e": ["f"]}

    assert pin_hashes.closure(["B>2", "e; python_version < '3'"], requires) == {"b", "c"}


@pytest.mark.parametrize(
    ("name", "is_ours"),
    [
        ("a-1.tar.gz", True),
        ("a-1-py3-none-any.whl", True),
        ("a-1-py2.py3-none-any.whl", True),
        ("a-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", True),
        ("a-1-cp39-abi3-manylinux_2_28_x86_64.whl", True),
        ("a-1-cp310-cp310-manylinux_2_28_x86_64.whl", False),
        ("a-1-cp311-cp311-musllinux_1_2_x86_64.whl", False),
        ("a-1-cp311-cp311-manylinux_2_28_aarch64.whl", False),
        ("a-1-cp311-cp311-win_amd64.whl", False),
        ("a-1.exe", False),
    ],
)
def test_files_for_other_machines_are_not_trusted(name: str, is_ours: bool) -> None:
    assert pin_hashes.is_for_us(name) is is_ours


def test_metadata_is_what_an_index_takes() -> None:
    ours = metadata.distribution("shunter").read_text("METADATA") or ""
    version = metadata.version("shunter")

    assert list(release.metadata_faults(ours.encode(), version)) == []
    assert list(release.metadata_faults(ours.encode(), "9")) != []
    assert list(release.metadata_faults(b"Name: shunter\n", version)) != []


def test_a_wheel_with_tests_in_it_or_without_its_schema_is_refused() -> None:
    assert list(release.wheel_faults(release.IN_WHEEL)) == []
    assert list(release.wheel_faults(release.IN_WHEEL[:-1])) != []
    assert list(release.wheel_faults([*release.IN_WHEEL, "tests/test_a.py"])) != []


@pytest.mark.parametrize("name", [*release.IN_SDIST, ".containerignore"])
def test_what_the_sources_must_have_is_there(name: str) -> None:
    assert (PROJECT / name).exists()


def test_an_sbom_that_names_folders_or_something_else_is_refused() -> None:
    about = '{"metadata": {"component": {"name": "shunter", "version": "1"}}, "components": [%s]}'
    part = '{"name": "a", "version": "2", "x": "%s"}'

    assert list(release.sbom_faults(about % (part % ""), "1")) == []
    assert list(release.sbom_faults(about % (part % ""), "2")) != []
    assert list(release.sbom_faults(about % "", "1")) != []
    assert list(release.sbom_faults(about % (part % "file:///a"), "1")) != []


def test_an_sbom_lists_the_libraries_that_come_inside_the_package() -> None:
    found = release.vendored_components(release.THIRD_PARTY.read_text())

    assert [(it["name"], it["purl"]) for it in found] == [("uplot", "pkg:npm/uplot@1.6.32")]
    assert found[0]["licenses"] == [{"license": {"id": "MIT"}}]


def test_the_containerfile_has_nothing_that_is_not_tried() -> None:
    text = try_container.CONTAINERFILE.read_text()
    found = try_container.instructions(text)
    stages = [rest for word, rest in found if word == "FROM"]

    assert len(stages) == 2
    assert ("USER", "10001:10001") in found
    assert "--require-hashes" in text
    assert {word for word, _ in found} <= {
        "FROM", "RUN", "COPY", "ENV", "WORKDIR", "USER", "ENTRYPOINT", "CMD", "HEALTHCHECK",
        *try_container.IGNORED,
    }  # fmt: skip
    copied = [rest.split()[0] for word, rest in found if word == "COPY" and "--from" not in rest]
    ignored = (PROJECT / ".containerignore").read_text().splitlines()
    for path in copied:
        assert f"!{path}" in ignored or any(line.startswith(f"!{path}") for line in ignored), path
