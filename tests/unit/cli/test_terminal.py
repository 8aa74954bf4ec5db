"""Whatever is printed, by whatever way, it is literal and harmless; colours of ours work."""

from __future__ import annotations

import io
import json

import pytest
from rich.ansi import AnsiDecoder
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from shunter.cli.terminal import Terminal, json_line

ATTACK = (
    "\x1b]52;c;aGk=\x07\x1b]8;;http://x\x07\x1b[2Ja\rb\x9b2J\u202e\x7f[red]:bomb:[link=http://x]"
)
SHOWN = (
    r"\x1b]52;c;aGk=\x07\x1b]8;;http://x\x07\x1b[2Ja\x0db\x9b2J\u202e\x7f[red]:bomb:[link=http://x]"
)


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
def terminal(screen: Screen) -> Terminal:
    return Terminal(file=screen, width=200, color_system=None, force_terminal=True)


def table(*cells: str) -> Table:
    made = Table(*cells, title=cells[0], caption=cells[0])
    made.add_row(*cells)
    return made


def test_a_text_is_literal_wherever_it_stands(terminal: Terminal, screen: Screen) -> None:
    terminal.print(ATTACK)
    terminal.print(table(ATTACK))
    terminal.print(Group(ATTACK, table(ATTACK)))
    terminal.rule(ATTACK)

    assert screen.getvalue().count(SHOWN) == 1 + 4 + 1 + 4 + 1
    assert screen.getvalue().isascii() is False  # the lines of tables
    assert not set("\x1b\x07\r\x9b\u202e\x7f") & set(screen.getvalue())


def test_a_table_keeps_its_shape(terminal: Terminal, screen: Screen) -> None:
    terminal.print(table("\x1b]52;c;aGk=\x07", "plain"))

    lines = [line for line in screen.getvalue().splitlines() if "┃" in line or "│" in line]
    assert len({len(line) for line in lines}) == 1


def test_what_is_no_string_is_harmless_too(terminal: Terminal, screen: Screen) -> None:
    terminal.print(Text(ATTACK))
    terminal.print(AnsiDecoder().decode_line("\x1b]8;;http://x\x1b\\click\x1b]8;;\x1b\\"))
    terminal.print([ATTACK], {ATTACK: ATTACK}, ValueError(ATTACK))

    assert not set("\x1b\x07\r\x9b\u202e\x7f") & set(screen.getvalue())
    assert "click" in screen.getvalue()


def test_a_live_display_sends_nothing_but_its_own_movements(screen: Screen) -> None:
    terminal = Terminal(file=screen, width=200, force_terminal=True)
    with Live(console=terminal, transient=True, auto_refresh=False) as live:
        live.update(table(ATTACK), refresh=True)

    for sequence in ("\x1b]", "\x07", "\x1b[2J", "a\rb", "\x9b", "\u202e", "\x7f"):
        assert sequence not in screen.getvalue()
    assert SHOWN in screen.getvalue()
    assert "\x1b[2K" in screen.getvalue()


def test_colours_of_ours_work(screen: Screen) -> None:
    terminal = Terminal(file=screen, force_terminal=True, color_system="standard")

    terminal.print(Text("shunter:", style="red"), "[red]broken", highlight=False)

    assert screen.getvalue() == "\x1b[31mshunter:\x1b[0m [red]broken\n"


def test_json_is_valid_and_has_the_same_value(terminal: Terminal, screen: Screen) -> None:
    terminal.print_json(json.dumps({ATTACK: [ATTACK, "grüße"]}))
    terminal.print(json_line({"id": ATTACK}), soft_wrap=True)

    assert not set("\x1b\x07\r\x9b\u202e\x7f") & set(screen.getvalue())
    assert "grüße" in screen.getvalue()
    found, end = json.JSONDecoder().raw_decode(screen.getvalue())
    assert found == {ATTACK: [ATTACK, "grüße"]}
    assert json.loads(screen.getvalue()[end:]) == {"id": ATTACK}


def test_a_result_is_raw_in_a_pipe_and_shown_on_a_terminal(screen: Screen) -> None:
    pipe = io.StringIO()

    Terminal(file=screen, width=20).print_result(ATTACK)
    Terminal(file=pipe, width=20).print_result(ATTACK)

    assert screen.getvalue() == f"{SHOWN}\n"
    assert pipe.getvalue() == f"{ATTACK}\n"


def test_a_terminal_that_wants_no_escapes_gets_no_raw_result(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "0")

    Terminal(file=screen).print_result(ATTACK)

    assert screen.getvalue() == f"{SHOWN}\n"
