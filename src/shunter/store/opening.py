"""Which store a URL means. The one place that knows all of them by name."""

from __future__ import annotations

from shunter.errors import SettingsError
from shunter.store.memory import MemoryStore
from shunter.store.port import Store
from shunter.store.sqlite import SQLiteStore

ALLOWED = "sqlite:///relative/path.db, sqlite:////absolute/path.db, or memory:// for tests"


def store_for(url: str) -> Store:
    """Return the store that `url` names, not yet open."""
    scheme, separator, rest = url.partition("://")
    match scheme.lower() if separator else "":
        case "memory" if not rest:
            return MemoryStore()
        case "sqlite" if rest.startswith("/") and rest[1:].strip("/") and rest != "/:memory:":
            return SQLiteStore(rest[1:])
        case "sqlite":
            hint = "three slashes before a relative path, four before an absolute one"
            raise _refusal(url, f"{ALLOWED} ({hint})")
        case "mongodb":
            raise _refusal(f"{url}, whose store is not built yet", ALLOWED)
        case _:
            raise _refusal(url, ALLOWED)


def _refusal(found: str, allowed: str) -> SettingsError:
    return SettingsError("settings", "store.url", found or "nothing", allowed)
