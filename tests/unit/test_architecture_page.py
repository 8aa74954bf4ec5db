"""What docs/architecture.md says of layers and purity is what the tests hold the package to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from unit.layer_table import LAYERS
from unit.test_layers import FORBIDDEN, PROJECT

PAGE = (PROJECT / "docs" / "architecture.md").read_text("utf-8")
TOP = {name for name in LAYERS if "." not in name and not name.startswith("__")}

IN_CODE = re.compile(r"`([^`]+)`")


def rows(head: str) -> Iterator[list[str]]:
    """Yield the cells of a table of the page, without its head."""
    for line in PAGE.partition(head)[2].splitlines()[2:]:
        if not line.startswith("|"):
            return
        yield line.strip("| ").split(" | ")


def modules(text: str) -> list[str]:
    return [name.rstrip("/").replace("/", ".") for name in IN_CODE.findall(text)]


def allowed(layer: str, text: str) -> set[str]:
    """Return what the page lets a layer import, the layer itself aside."""
    if not text.startswith("all but"):
        return set(modules(text))
    but, _, also = text.partition(";")
    return TOP - {layer} - set(modules(but)) | set(modules(also))


def test_the_page_has_every_layer_and_says_what_it_may_import() -> None:
    told = {}
    for name, _, may in rows("| layer | what it is | may import |"):
        (layer,) = modules(name)
        told[layer] = allowed(layer, may)

    assert told == {layer: set(names) - {layer} for layer, names in LAYERS.items()}


def test_the_page_names_the_modules_that_are_held_to_be_pure() -> None:
    told = set()
    for room, names in rows("| room | pure modules |"):
        (folder,) = modules(room)
        whole = [folder] if names == "all" else []
        told.update(whole, (f"{folder}.{name}".removeprefix("shunter.") for name in modules(names)))

    assert told == set(FORBIDDEN)
