"""Every relative link in our Markdown leads to a file that exists, and to a heading in it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]

_FENCED = re.compile(r"^(```|~~~).*?^\1$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)(?:\s+\"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6}\s+(?P<text>.+?)\s*#*$", re.MULTILINE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def pages() -> list[Path]:
    """Return our Markdown files, leaving out what tools put into hidden folders."""
    folders = [each for each in PROJECT.iterdir() if each.is_dir() and each.name[0] != "."]
    found = [*PROJECT.glob("*.md"), *(path for each in folders for path in each.rglob("*.md"))]
    return sorted(
        path
        for path in found
        if not any(part.startswith(".") for part in path.relative_to(PROJECT).parts)
    )


def without_code(text: str) -> str:
    return _FENCED.sub("", text)


def links(text: str) -> list[str]:
    """Return the targets of all links that stay in the project."""
    found = (link["target"] for link in _LINK.finditer(_CODE.sub("", without_code(text))))
    return [target for target in found if not _SCHEME.match(target)]


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return what a fragment may be, as GitHub makes it from headings."""
    seen: dict[str, int] = {}
    names = set()
    for heading in _HEADING.finditer(without_code(page.read_text(encoding="utf-8"))):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading["text"]).replace("`", "")
        name = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        seen[name] = seen.get(name, -1) + 1
        names.add(f"{name}-{seen[name]}" if seen[name] else name)
    return frozenset(names)


def fault(page: Path, target: str) -> str:
    """Say what is wrong with a link, or nothing."""
    place, _, fragment = target.partition("#")
    aim = (page.parent / place).resolve() if place else page
    if not aim.exists():
        return f"{target}: there is no {aim}"
    if PROJECT not in (aim, *aim.parents):
        return f"{target}: it leads out of the project"
    if fragment and fragment not in anchors(aim):
        return f"{target}: {aim.name} has no such heading; it has {', '.join(sorted(anchors(aim)))}"
    return ""


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    found = links(page.read_text(encoding="utf-8"))

    assert [wrong for target in found if (wrong := fault(page, target))] == []


FOR_USERS = ("guide", "tutorial.md")
"""Pages that name files of users, too."""

_SOURCE_FILE = re.compile(r"`((?:[\w-]+/)*[\w-]+\.(?:py|sql))`")


def missing_files(text: str) -> list[str]:
    """Return the files of ours that a text names and that are not there."""
    rooms = (PROJECT / "src" / "shunter", PROJECT)
    return [
        name
        for name in _SOURCE_FILE.findall(without_code(text))
        if "NAME" not in name
        and not any((room / name).exists() for room in rooms)
        and not any(any(PROJECT.glob(f"{place}/**/{name}")) for place in ("src", "tests", "tools"))
    ]


@pytest.mark.parametrize(
    "page",
    [page for page in pages() if not set(FOR_USERS).intersection(page.relative_to(PROJECT).parts)],
    ids=lambda page: str(page.relative_to(PROJECT)),
)
def test_every_file_that_is_named_is_there(page: Path) -> None:
    assert missing_files(page.read_text(encoding="utf-8")) == []


def test_a_file_that_is_not_there_is_found() -> None:
    text = "as in `gateway/complaints.py`, not as in `store/port.py`, `turn.py` or `schema.sql`"

    assert missing_files(text) == ["gateway/complaints.py"]


def test_a_wrong_file_and_a_wrong_heading_are_found(tmp_path: Path) -> None:
    page = PROJECT / "docs" / "README.md"

    assert "there is no" in fault(page, "nowhere.md")
    assert "no such heading" in fault(page, "glossary.md#no-such-heading")
    assert "leads out of the project" in fault(page, str(tmp_path))
    assert fault(page, "glossary.md#jobs") == ""


def test_links_in_code_and_to_other_sites_are_left_alone() -> None:
    text = "[a](b.md) `[c](d.md)` [e](https://f.org)\n```\n[g](h.md)\n```\n[i](#j)"

    assert links(text) == ["b.md", "#j"]


def test_headings_become_anchors_as_on_github(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# 6. Leases, and `losses`\n\n## Same\n\n## Same\n\n## A [link](x.md)\n")

    assert anchors(page) == {"6-leases-and-losses", "same", "same-1", "a-link"}
