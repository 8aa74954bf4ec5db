"""Which stores there are. The one place that knows all of them by their URLs' schemes.

A store is a line in `KINDS` and a driver: a module with the functions of `StoreDriver`, which is
loaded when a URL first asks for it. How to write one: docs/extending.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from msgspec import Struct

from shunter.errors import SettingsError
from shunter.model.redaction import redacted_url, without_secrets_of

if TYPE_CHECKING:
    from shunter.store.finding import Finding
    from shunter.store.port import Store


class StoreDriver(Protocol):
    """What is asked of a store's module; each function is given the whole URL."""

    def made(self, url: str) -> Store:
        """Return the store, not yet open; raise a ValueError if the URL can't be one's."""

    async def check_exists(self, url: str) -> None:
        """Raise a StoreError unless a dispatcher has made this store; never make it."""

    def mark_of(self, url: str) -> str:
        """Return a text that is the same for two URLs of one store, and for no others."""

    def absolute(self, url: str) -> str:
        """Return a URL that means the same in another folder."""

    def glance(self, url: str) -> Finding:
        """Look whether a dispatcher could work on it, for `shunter doctor`; soon done."""

    def examine(self, url: str) -> Iterator[Finding]:
        """Look at all of it, for `shunter doctor --store`; change nothing."""

    def repair(self, url: str) -> Iterator[Finding]:
        """Mend what can be mended, and say what was done or what is left to do."""


class StoreKind(Struct, frozen=True, kw_only=True):
    """One kind of store. `pattern` is what the settings hold a URL to, `form` how it is written."""

    schemes: tuple[str, ...]
    pattern: str
    form: str
    brief_form: str
    driver: str
    is_local: bool = True
    """Only dispatchers of one host can share it; else their clocks must agree."""
    needs_sqlite: bool = False


KINDS = (
    StoreKind(
        schemes=("sqlite",),
        pattern=r"sqlite:///.+",
        form="sqlite:///relative/path.db, sqlite:////absolute/path.db",
        brief_form="sqlite:///file",
        driver="shunter.store.sqlite.driver",
        needs_sqlite=True,
    ),
    StoreKind(
        schemes=("mongodb", "mongodb+srv"),
        pattern=r"mongodb(\+srv)?://[^/]+/[^/?]+(\?.*)?",
        form="mongodb://host:port/database",
        brief_form="mongodb://host:port/database",
        driver="shunter.store.mongo.driver",
        is_local=False,
    ),
    StoreKind(
        schemes=("memory",),
        pattern=r"memory://",
        form="memory:// for tests",
        brief_form="memory://",
        driver="shunter.store.memory_driver",
    ),
)

URL_PATTERN = f"^({'|'.join(kind.pattern for kind in KINDS)})\\Z"
BRIEFLY_ALLOWED = f"{', '.join(kind.brief_form for kind in KINDS[:-1])} or {KINDS[-1].brief_form}"
ALLOWED = f"{', '.join(kind.form for kind in KINDS[:-1])}, or {KINDS[-1].form}"


def kind_of(url: str) -> StoreKind:
    """Return the kind of store that a URL means, or raise a SettingsError."""
    scheme, separator, _ = url.partition("://")
    for kind in KINDS:
        if separator and scheme.lower() in kind.schemes:
            return kind
    raise _refusal(redacted_url(url) if url else "nothing")


def driver_of(url: str) -> StoreDriver:
    """Load what knows the kind of store that a URL means."""
    return cast(StoreDriver, import_module(kind_of(url).driver))


def store_for(url: str) -> Store:
    """Return the store that `url` names, not yet open."""
    driver = driver_of(url)
    try:
        return driver.made(url)
    except ValueError as error:
        fault = without_secrets_of(url, str(error))
        raise _refusal(f"{redacted_url(url)} ({fault})") from None


def store_mark(url: str) -> str:
    """Return a name for the store that two dispatchers over it, and no others, give it.

    Where two spell the address of one store differently, a worker takes them for two, and
    gives up its jobs sooner than it must.
    """
    return hashlib.sha256(driver_of(url).mark_of(url).encode()).hexdigest()[:16]


async def existing_store(url: str) -> Store:
    """Return the store that `url` names, not yet open, or raise a StoreError if none is there."""
    store = store_for(url)
    await driver_of(url).check_exists(url)
    return store


def _refusal(found: str) -> SettingsError:
    return SettingsError("settings", "store.url", found, ALLOWED)
