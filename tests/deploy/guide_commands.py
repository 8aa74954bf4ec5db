"""Commands of docs/guide/production.md, to be run as they stand there, with other paths."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from deploy.settings_files import PROJECT

GUIDE = PROJECT / "docs" / "guide" / "production.md"


def commands(heading: str) -> list[str]:
    """Return the lines behind `$ ` in the console blocks under a heading, continued ones joined."""
    text = GUIDE.read_text()
    section = re.split(rf"^#+ {re.escape(heading)}$", text, flags=re.MULTILINE)[1]
    section = re.split(r"^#+ ", _without_blocks(section), maxsplit=1, flags=re.MULTILINE)[0]
    blocks = [_BLOCKS[int(number)] for number in re.findall(r"\0(\d+)\0", section)]
    joined = "\n".join(blocks).replace("\\\n", " ")
    return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]


_BLOCKS: list[str] = []


def _without_blocks(text: str) -> str:
    """Put blocks aside, since `#` begins comments in them."""

    def aside(found: re.Match[str]) -> str:
        _BLOCKS.append(found["body"])
        return f"\0{len(_BLOCKS) - 1}\0"

    return re.sub(r"^```console\n(?P<body>.*?)^```$", aside, text, flags=re.MULTILINE | re.DOTALL)


AS_ROOT = 'systemctl() { :; }; chown() { :; }; runuser() { shift 3; "$@"; }\n'
"""What only root on a host with systemd can do, left out."""


def carry_out(
    lines: list[str],
    names: Mapping[str, str | Path],
    *,
    folder: Path | None = None,
    stand_ins: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Run commands in one shell, with these names in place of those that the guide has.

    `stand_ins` are programs in Python for commands that may not be here.
    """
    script = "\n".join(lines)
    for written, real in names.items():
        assert written in script, f"the guide no longer says {written}"
        script = script.replace(written, str(real))
    functions = (
        f'{name}() {{ {sys.executable} -c {shlex.quote(program)} "$@"; }}\n'
        for name, program in stand_ins.items()
    )
    done = subprocess.run(
        ["bash", "-euc", AS_ROOT + "".join(functions) + script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
