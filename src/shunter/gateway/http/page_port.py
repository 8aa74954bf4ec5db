"""What a page for people is given, and what it gives back: routes beside those for programs.

The gateway knows no page. Whoever starts a dispatcher may hand one in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.schedule_book import ScheduleBook
from shunter.gateway.http.audit import HttpAudit
from shunter.gateway.http.job_orders import JobOrders
from shunter.gateway.http.run_orders import RunOrders
from shunter.gateway.key_list import KeyList
from shunter.net.web.application import Handler


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """How a page is served: whether browsers come by TLS, and whether it may change anything."""

    is_secure: bool = False
    may_change: bool = True


ALL_ALLOWED = PageOptions()


@dataclass(frozen=True, kw_only=True)
class PagePorts:
    """All that a page may use."""

    dispatcher: Dispatcher
    orders: JobOrders
    runs: RunOrders
    book: ScheduleBook
    audit: HttpAudit
    keys: KeyList
    new_id: Callable[[], str]
    is_ready: Callable[[], bool]
    options: PageOptions


@dataclass(frozen=True, kw_only=True)
class PageRoutes:
    """Handlers by path and method, and the one for a person who came to where nothing is."""

    methods: Mapping[str, Mapping[str, Handler]]
    lost: Handler


PageMount = Callable[[PagePorts], PageRoutes]
