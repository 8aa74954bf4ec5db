"""Examinations of libraries that many do without: for Spark, Delta tables, reports and codecs."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from importlib import metadata

from msgspec import Struct

from shunter.cli.diagnosis import Finding, State, Surroundings
from shunter.cli.machine import numbers_in


class Library(Struct, frozen=True):
    """What must be there for something: from version `oldest` on, and older than `below`."""

    name: str
    extra: str
    oldest: str
    below: str = ""


SPARK = (
    Library("pyspark", "spark", "4.1", "4.4"),
    Library("pandas", "spark", "2.2", "3"),
    Library("pyarrow", "spark", "18"),
)
"""What flows on Spark need, besides Java."""

EXTRAS = (
    Library("grpcio", "connect", "1.76"),
    Library("deltalake", "delta", "1.2"),
    Library("matplotlib", "report", "3.10"),
    Library("cryptography", "codec", "50"),
    Library("opentelemetry-api", "otel", "1.30"),
)
"""What one feature or another needs."""


def spark(_: Surroundings) -> Iterator[Finding]:
    """Look for PySpark and what it needs; jobs, and flows elsewhere, do without."""
    return (_finding(library, "needed for flows on Spark alone") for library in SPARK)


def extras(_: Surroundings) -> Finding:
    """Tell which of the smaller extras are there; none of them is missed by the rest."""
    there: list[str] = []
    absent: list[str] = []
    for library in EXTRAS:
        version = _version(library.name)
        told = f"{library.name} {version}" if version else library.name
        (there if version and not _fault(library, version) else absent).append(
            f"{told} (shunter[{library.extra}])"
        )
    fact = ", ".join(there) or "none"
    return Finding(
        "extras", State.OK, f"{fact}; not there: {', '.join(absent)}" if absent else fact
    )


def _finding(library: Library, why: str) -> Finding:
    remedy = f"{why}; type: pip install --upgrade 'shunter[{library.extra}]'"
    version = _version(library.name)
    if version is None:
        return Finding(library.name, State.WARN, "not installed", remedy)
    fault = _fault(library, version)
    if fault:
        return Finding(library.name, State.WARN, f"{version}, {fault}", remedy)
    try:
        importlib.import_module(library.name)
    except Exception as error:
        return Finding(library.name, State.WARN, f"{version} can't be imported: {error}", remedy)
    return Finding(library.name, State.OK, version)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _fault(library: Library, version: str) -> str:
    """Say what is wrong with a version, in words that go behind it."""
    if numbers_in(version) < numbers_in(library.oldest):
        return f"and {library.oldest} or newer is needed"
    if library.below and numbers_in(version) >= numbers_in(library.below):
        return f"and one older than {library.below} is needed"
    return ""
