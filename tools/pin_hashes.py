"""Write the pins with the hashes of what the index offers, for `pip install --require-hashes`.

`requirements-hashed.txt` has all of requirements.txt. `deploy/container/requirements.txt` has only
what Shunter asks for without extras, which is what the image installs. Hashes are those of wheels
for Linux on x86_64 and of sources: another platform is refused rather than trusted.
The index is pip's own; its address is not written down. Run it in .venv-release: make hashes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

PROJECT = Path(__file__).parents[1]
PINS = PROJECT / "requirements.txt"
ALL = PROJECT / "requirements-hashed.txt"
CORE = PROJECT / "deploy" / "container" / "requirements.txt"

PYTHONS = {"py3", "py2", "cp311", "cp312", "cp313", "cp314"}
_HEAD = "# Made by tools/pin_hashes.py (make hashes) from requirements.txt: {what}.\n"
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+)$", re.MULTILINE)


def pins_of(text: str) -> dict[str, str]:
    """Return the version of each pinned package, by its canonical name."""
    return {canonicalize_name(found["name"]): found["version"] for found in _PIN.finditer(text)}


def is_for_us(filename: str) -> bool:
    """True if a file of the index is source, or a wheel for Linux on x86_64 and our Pythons."""
    if not filename.endswith(".whl"):
        return filename.endswith((".tar.gz", ".zip"))
    *_, tags = parse_wheel_filename(filename)
    return any(
        (tag.platform == "any" or re.fullmatch(r"manylinux\w*_x86_64", tag.platform))
        and (tag.interpreter in PYTHONS or (tag.abi == "abi3" and tag.interpreter[:3] == "cp3"))
        for tag in tags
    )


def closure(wanted: Iterable[str], requires: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the packages that these need, and what those need; by canonical names."""
    found: set[str] = set()
    waiting = [Requirement(line) for line in wanted]
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        if (one.marker and not one.marker.evaluate({"extra": ""})) or name in found:
            continue
        found.add(name)
        waiting += [Requirement(line) for line in requires.get(name, ())]
    return found


def written(pins: Mapping[str, str], hashes: Mapping[str, Iterable[str]], what: str) -> str:
    """Return the text of a file with these pins."""
    return _HEAD.format(what=what) + "".join(
        f"{name}=={pins[name]}"
        + "".join(f" \\\n    --hash=sha256:{one}" for one in sorted(hashes[name]))
        + "\n"
        for name in sorted(pins)
    )


def hashes_on_the_index(pins: Mapping[str, str]) -> Iterator[tuple[str, set[str]]]:
    """Ask the index that pip is set up with."""
    from piptools.repositories import PyPIRepository  # type: ignore[import-not-found,unused-ignore]

    index = PyPIRepository([], cache_dir=str(PROJECT / "build" / "pip-tools"))
    with index.allow_all_wheels():
        for name, version in pins.items():
            links = [
                candidate.link
                for candidate in index.find_all_candidates(name)
                if str(candidate.version) == version and is_for_us(candidate.link.filename)
            ]
            found = {link.hash for link in links if link.hash and link.hash_name == "sha256"}
            if not found:
                sys.exit(f"{name}=={version}: the index has no file of it for us, or no SHA-256")
            yield name, found


def core_names(pins: Mapping[str, str]) -> set[str]:
    """Return what Shunter needs without extras, by the packages that are installed in .venv."""
    import tomllib
    from importlib import metadata

    [site] = (PROJECT / ".venv" / "lib").glob("python3.*/site-packages")
    requires: dict[str, Iterable[str]] = {
        canonicalize_name(found.metadata["Name"]): found.requires or ()
        for found in metadata.distributions(path=[str(site)])
    }
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    names = closure(project["dependencies"], requires)
    if missing := names - set(pins):
        sys.exit(f"requirements.txt has no pins for {', '.join(sorted(missing))}; add them")
    return names


def main() -> None:
    pins = pins_of(PINS.read_text())
    hashes = dict(hashes_on_the_index(pins))
    core = {name: pins[name] for name in core_names(pins)}
    ALL.write_text(written(pins, hashes, "everything, with all extras"))
    CORE.parent.mkdir(parents=True, exist_ok=True)
    CORE.write_text(written(core, hashes, "what Shunter needs without extras"))
    print(f"{len(pins)} pins in {ALL.name}, {len(core)} in {CORE.relative_to(PROJECT)}")


if __name__ == "__main__":
    main()
