"""Build what is published, and check it as a stranger would use it: make release.

From the last commit, into dist/: source distribution, wheel, SBOM (CycloneDX) and their sums.
Nothing is uploaded. Decisions (what a right version, wheel or sdist is) are functions over text and
names of files, which tests/deploy/test_release.py tries; `main` does the rest.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path

from packaging.metadata import Metadata

PROJECT = Path(__file__).parents[1]
DIST = PROJECT / "dist"
RELEASE_PYTHON = PROJECT / ".venv-release" / "bin" / "python"
THIRD_PARTY = PROJECT / "src" / "shunter" / "page" / "static" / "third_party" / "parts.toml"
TRIAL = PROJECT / "tools" / "try_installed.py"

IN_SDIST = (
    "CHANGELOG.md", "LICENSE", "Makefile", "README.md", "SECURITY.md", "pyproject.toml",
    "requirements.txt", "requirements-hashed.txt", "docs/README.md", "docs/guide/production.md",
    "tests/conftest.py", "tests/unit/test_layers.py", "deploy/container/Containerfile",
    "deploy/systemd/shunter-dispatcher.service", "tools/release.py", "src/shunter/__init__.py",
)  # fmt: skip
IN_WHEEL = (
    "shunter/__init__.py", "shunter/py.typed", "shunter/store/sqlite/schema.sql",
    "shunter/page/static/third_party/uplot/uPlot.iife.min.js",
    "shunter/page/static/third_party/uplot/LICENSE", "pyspark_shunter/__init__.py",
)  # fmt: skip
_HEADING = re.compile(r"^## (?P<version>\S+), (?P<when>unreleased|\d{4}-\d\d-\d\d)$", re.MULTILINE)


def version_faults(version: str, changelog: str) -> Iterator[str]:
    """Yield what is wrong between a version and the newest entry of the changelog."""
    found = _HEADING.search(changelog)
    if found is None:
        yield "CHANGELOG.md has no heading such as: ## 1.2.3, 2026-11-17"
    elif found["version"] != version:
        yield f"pyproject.toml has version {version}, CHANGELOG.md begins with {found['version']}"


def is_dated(changelog: str) -> bool:
    """True if the newest entry of the changelog has a date."""
    found = _HEADING.search(changelog)
    return found is not None and found["when"] != "unreleased"


def metadata_faults(text: bytes, version: str) -> Iterator[str]:
    """Yield what an index would refuse in a METADATA file, and what would not be ours."""
    try:
        found = Metadata.from_email(text)
    except ExceptionGroup as group:
        yield from (str(error) for error in group.exceptions)
        return
    if (found.name, str(found.version)) != ("shunter", version):
        yield f"it is {found.name} {found.version}, and not shunter {version}"
    if found.description_content_type != "text/markdown" or not found.description:
        yield "it has no description in Markdown"
    if not found.license_expression or not found.requires_python:
        yield "it names no licence or no Python"


def missing_from(names: Collection[str], wanted: Collection[str]) -> Iterator[str]:
    yield from (f"{name} is missing" for name in wanted if name not in names)


def wheel_faults(names: Collection[str]) -> Iterator[str]:
    """Yield what a wheel lacks, and what does not belong into it."""
    yield from missing_from(names, IN_WHEEL)
    ours = ("shunter/", "pyspark_shunter/", "shunter-")
    yield from (f"{name} does not belong in it" for name in names if not name.startswith(ours))


def main() -> None:
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    changelog = (PROJECT / "CHANGELOG.md").read_text()
    _insist("version", version_faults(version, changelog))
    if not is_dated(changelog):
        _say("CHANGELOG.md says 'unreleased': put the date there before you publish")
    if _output("git", "status", "--porcelain"):
        _say("what is not committed is not in it")
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="shunter-release-") as temporary:
        folder = Path(temporary)
        sdist, wheel = _build(folder / "source")
        _check(sdist, wheel, version)
        python = _installed(folder / "venv", wheel)
        _run(str(python), "-I", str(TRIAL), cwd=folder)
        _write_sbom(python, DIST / f"shunter-{version}.cdx.json", version)
    _print_sums()


def _build(source: Path) -> tuple[Path, Path]:
    """Build from the last commit alone: first the sources, and from these the wheel."""
    source.mkdir()
    archive = subprocess.run(
        ["git", "archive", "HEAD"], cwd=PROJECT, check=True, capture_output=True
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive, check=True)
    moment = _output("git", "log", "-1", "--format=%ct")  # the same commit gives the same files
    environ = {**os.environ, "SOURCE_DATE_EPOCH": moment}
    _run(str(RELEASE_PYTHON), "-m", "build", "--no-isolation", "--outdir", str(DIST), cwd=source,
         env=environ)  # fmt: skip
    [sdist], [wheel] = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    return sdist, wheel


def _check(sdist: Path, wheel: Path, version: str) -> None:
    with tarfile.open(sdist) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    _insist(sdist.name, missing_from(names, IN_SDIST))
    with zipfile.ZipFile(wheel) as packed:
        inside = packed.namelist()
        text = packed.read(f"shunter-{version}.dist-info/METADATA")
    _insist(wheel.name, [*wheel_faults(inside), *metadata_faults(text, version)])
    _say(f"{len(names)} entries in {sdist.name}, {len(inside)} in {wheel.name}; all there")


def _installed(folder: Path, wheel: Path) -> Path:
    """Install the wheel as the guide says, with hashes, into a venv that has nothing else."""
    venv.create(folder, with_pip=True)
    pip = (str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet")
    pins = str(PROJECT / "deploy" / "container" / "requirements.txt")
    _run(*pip, "install", "--require-hashes", "--only-binary", ":all:", "-r", pins)
    _run(*pip, "install", "--no-deps", "--no-index", str(wheel))
    _run(*pip, "check")
    return folder / "bin" / "python"


def _write_sbom(python: Path, path: Path, version: str) -> None:
    """List what was installed and what is inside, without the tools that came with the venv."""
    listed = _output(
        str(RELEASE_PYTHON), "-m", "cyclonedx_py", "environment", "--output-reproducible",
        "--output-format", "JSON", "--pyproject", str(PROJECT / "pyproject.toml"), str(python),
    )  # fmt: skip
    bom = json.loads(listed)
    tools = {"pip", "setuptools", "shunter"}  # shunter itself is what the document is about
    bom["components"] = [one for one in bom["components"] if one["name"] not in tools]
    bom["components"] += vendored_components(THIRD_PARTY.read_text())
    kept = {one["bom-ref"] for one in bom["components"]} | {"root-component"}
    bom["dependencies"] = [one for one in bom.get("dependencies", []) if one["ref"] in kept]
    text = json.dumps(bom, indent=1, sort_keys=True) + "\n"
    _insist(path.name, sbom_faults(text, version))
    path.write_text(text)
    _say(f"{len(bom['components'])} components in {path.name}")


def vendored_components(parts: str) -> list[dict[str, object]]:
    """Return the libraries that come inside the package, as an SBOM lists them."""
    return [
        {
            "bom-ref": part["purl"],
            "type": "library",
            "name": name,
            "version": part["version"],
            "purl": part["purl"],
            "licenses": [{"license": {"id": part["license"]}}],
            "externalReferences": [{"type": "website", "url": part["about"]}],
        }
        for name, part in tomllib.loads(parts).items()
    ]


def sbom_faults(text: str, version: str) -> Iterator[str]:
    """Yield what is wrong with a list of parts."""
    bom = json.loads(text)
    about = bom["metadata"]["component"]
    if (about["name"], about["version"]) != ("shunter", version):
        yield f"it is about {about['name']} {about.get('version')}"
    if not bom["components"]:
        yield "it lists nothing"
    yield from (f"{one['name']} has no version" for one in bom["components"] if not one["version"])
    if "file://" in text or str(PROJECT) in text:
        yield "it names folders of this machine"


def _print_sums() -> None:
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(DIST.iterdir())
    ]
    (DIST / "SHA256SUMS").write_text("".join(lines))
    print("".join(lines), end="")


def _insist(what: str, faults: Collection[str] | Iterator[str]) -> None:
    if found := list(faults):
        sys.exit("".join(f"release: {what}: {fault}\n" for fault in found))


def _say(text: str) -> None:
    print(f"release: {text}", flush=True)


def _run(*words: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(words, cwd=cwd, env=env, stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        sys.exit(f"release: {' '.join(words[:4])} … failed with {done.returncode}")


def _output(*words: str) -> str:
    done = subprocess.run(words, cwd=PROJECT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
