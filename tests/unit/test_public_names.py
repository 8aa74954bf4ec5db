"""What `import shunter` offers."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import shunter


@pytest.mark.parametrize("name", shunter.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(shunter, name).__name__ == name


def test_importing_the_app_does_not_load_the_client() -> None:
    code = "import sys; from shunter import App, Context; sys.exit('zmq' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_two_classes_share_a_name() -> None:
    source = Path(shunter.__file__).parent
    names = Counter(
        node.name
        for path in source.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )

    assert {name for name, count in names.items() if count > 1} == set()
