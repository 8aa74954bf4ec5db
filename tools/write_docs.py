"""Rewrite the generated parts of docs/: `make docs`, or `--check` to see whether that is due.

A generated part stands between `<!-- made by tools/write_docs.py: NAME -->` and `<!-- end -->`.
Its truth is in the code: the transition table, the settings, the commands, the messages, the
docstrings.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.api_reference import api_reference
from tools.limit_tables import LIMIT_HEAD, limit_rows, schedule_limit_rows
from tools.message_tables import (
    CLIENT_PARTS,
    MAPS,
    PART_MESSAGES,
    WORKER_MESSAGES,
    WORKER_PARTS,
    by_method,
    by_request,
    by_sender,
    parts,
)

from shunter.model.job import Status
from shunter.model.key import RIGHTS, Action, Role
from shunter.model.lifecycle import TRANSITIONS
from shunter.settings import all_settings
from shunter.settings_sources import shown

DOCS = Path(__file__).parents[1] / "docs"
PART = re.compile(
    r"(?P<head><!-- made by tools/write_docs\.py: (?P<name>[^>]+?) -->\n)"
    r"(?P<body>.*?)(?P<tail><!-- end -->)",
    re.DOTALL,
)


def role_table() -> str:
    """What each role of keys may do, from the one table of rights."""
    rights = ((role, [action for action in Action if action in RIGHTS[role]]) for role in Role)
    rows = [(role, ", ".join(may) or "nothing: it is known by it") for role, may in rights]
    return table(("role", "may"), rows)


def job_diagram() -> str:
    """Draw the transition table; steps between the same two statuses share an arrow."""
    events: dict[tuple[Status, Status], list[str]] = {}
    for (status, event), after in TRANSITIONS.items():
        events.setdefault((status, after), []).append(event.value)
    lines = [
        *(f'state "{status.word}" as {status.value}' for status in Status),
        f"[*] --> {Status.QUEUED.value}: accepted",
        *(
            f"{before.value} --> {after.value}: {', '.join(names)}"
            for (before, after), names in events.items()
        ),
        *(f"{status.value} --> [*]" for status in Status if status.is_final),
    ]
    return "\n".join(["```mermaid", "stateDiagram-v2", *(f"    {line}" for line in lines), "```"])


def job_transitions() -> str:
    """List the transition table."""
    rows = (
        (f"`{status.value}` {status.word}", event.value, f"`{after.value}` {after.word}")
        for (status, event), after in TRANSITIONS.items()
    )
    return table(("status", "event", "status after"), rows)


def settings_table() -> str:
    """List every setting."""
    rows = (
        (f"`{setting.key}`", f"`{shown(setting.default)}`", setting.allowed, setting.meaning)
        for setting in all_settings()
    )
    return table(("key", "default", "allowed", "meaning"), rows)


def commands() -> str | None:
    """Describe every command, or nothing while there is no command line."""
    if importlib.util.find_spec("shunter.cli.main") is None:
        return None
    import typer

    module = importlib.import_module("shunter.cli.main")
    app = next(value for value in vars(module).values() if isinstance(value, typer.Typer))
    return command_help(typer.main.get_command(app), "shunter")


def command_help(command: Any, name: str) -> str:
    """Describe a command and those below it; typer's own click has no public types."""
    return "\n\n".join(_command_parts(command, name))


def _command_parts(command: Any, name: str) -> Iterator[str]:
    inner = {key: one for key, one in getattr(command, "commands", {}).items() if not one.hidden}
    about = " ".join((command.help or "").partition("\f")[0].split())
    parameters = [
        one
        for one in command.params
        if not getattr(one, "hidden", False) and "completion" not in one.name
    ]
    if not inner or parameters:
        arguments = [one for one in parameters if one.param_type_name == "argument"]
        words = [name, "[OPTIONS]" if len(arguments) < len(parameters) else ""]
        words += ["COMMAND" if inner else "", *(_argument(one) for one in arguments)]
        yield f"## {name}"
        yield f"`{' '.join(filter(None, words))}`"
    if about:
        yield about
    if parameters:
        yield table(("parameter", "default", "meaning"), map(_parameter_row, parameters))
    for key, one in inner.items():
        yield from _command_parts(one, f"{name} {key}")


def _argument(parameter: Any) -> str:
    word = parameter.name.upper() + ("..." if parameter.nargs == -1 else "")
    return word if parameter.required else f"[{word}]"


def _parameter_row(parameter: Any) -> tuple[str, str, str]:
    is_argument = parameter.param_type_name == "argument"
    names = [_argument(parameter)] if is_argument else parameter.opts + parameter.secondary_opts
    default = parameter.default
    plain = isinstance(default, str | int | float) and not isinstance(default, bool)
    return (
        ", ".join(f"`{one}`" for one in names),
        "required" if parameter.required else f"`{default}`" if plain and default != "" else "",
        " ".join((getattr(parameter, "help", None) or "").split()),
    )


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Write a Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in lines)
    return "\n".join(f"| {' | '.join(row)} |" for row in escaped)


KIND_HEAD = ("kind", "from", "fields", "meaning")
PART_HEAD = ("part", "fields", "meaning")
REQUEST_HEAD = ("kind", "request: fields", "answer", "meaning")

PARTS: dict[str, Callable[[], str | None]] = {
    "the job diagram": job_diagram,
    "the job transitions": job_transitions,
    "the settings": settings_table,
    "the roles": role_table,
    "the commands": commands,
    "the messages of workers": lambda: table(KIND_HEAD, by_sender(WORKER_MESSAGES)),
    "the arrays of workers": lambda: table(PART_HEAD, parts(WORKER_PARTS)),
    "the maps in messages": lambda: table(("part", "keys", "meaning"), parts(MAPS)),
    "the messages of clients": lambda: table(REQUEST_HEAD, by_request()),
    "the arrays of clients": lambda: table(PART_HEAD, parts(CLIENT_PARTS)),
    "the methods of UDP": lambda: table(("method", "params", "meaning"), by_method()),
    "the limits": lambda: table(LIMIT_HEAD, limit_rows()),
    "the limits of schedules": lambda: table(LIMIT_HEAD, schedule_limit_rows()),
    "the Python interface": api_reference,
    "the messages about parts": lambda: table(KIND_HEAD, by_sender(PART_MESSAGES)),
}


def rewritten(text: str) -> str:
    """Return a document with its generated parts made anew."""

    def remade(part: re.Match[str]) -> str:
        if part["name"] not in PARTS:
            names = ", ".join(PARTS)
            raise SystemExit(f"no part is called {part['name']!r}; there are: {names}")
        body = PARTS[part["name"]]()
        return part[0] if body is None else f"{part['head']}\n{body}\n\n{part['tail']}"

    return PART.sub(remade, text)


def outdated(docs: Path) -> dict[Path, str]:
    """Return the documents that are not as they should be, with what they should be."""
    found = {}
    for path in sorted(docs.rglob("*.md")):
        before = path.read_text(encoding="utf-8")
        if (after := rewritten(before)) != before:
            found[path] = after
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if outdated")
    parser.add_argument("--docs", type=Path, default=DOCS, help="the folder with the documents")
    options = parser.parse_args(arguments)
    changes = outdated(options.docs)
    for path, text in changes.items():
        if not options.check:
            path.write_text(text, encoding="utf-8")
        print(f"{path}: {'outdated; type: make docs' if options.check else 'rewritten'}")
    return 1 if changes and options.check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
