"""What a view is: where it stands, who may see it, what it reads, which of its parts change.

A new view is a module with a `View`, its two templates, and a line in `views.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shunter.model.key import Action, Key
from shunter.model.scope import JobScope
from shunter.page.system_look import SystemLook

Data = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class PageRequest:
    """A person's question: who asks, and for what."""

    key: Key | None
    scope: JobScope
    may: frozenset[Action]
    query: Mapping[str, str]
    id: str = ""


@dataclass(frozen=True, kw_only=True)
class View:
    """One kind of page. `lists` names the macro that draws a row of each list.

    A row is drawn of its item, and else only of what stays the same while a page is open. A view
    that `has_plots` reads them as `plots`, and its page loads the library that draws them.
    """

    name: str
    path: str
    title: str
    opening: Action
    read: Callable[[SystemLook, PageRequest], Awaitable[Data]]
    regions: tuple[str, ...] = ()
    lists: Mapping[str, str] = field(default_factory=dict)
    has_plots: bool = False
    is_in_menu: bool = True
    is_for_all: bool = False
    """Whether somebody sees it who sees the jobs of one namespace alone."""
