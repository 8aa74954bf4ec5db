"""Which store a URL means. The one place that knows all of them by name."""

from __future__ import annotations

from shunter.errors import SettingsError
from shunter.store.memory import MemoryStore
from shunter.store.port import Store
from shunter.store.sqlite import SQLiteStore

ALLOWED = (
    "sqlite:///relative/path.db, sqlite:////absolute/path.db, mongodb://host:port/database, "
    "or memory:// for tests"
)


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
        case "mongodb" | "mongodb+srv":
            return _mongo_store(url)
        case _:
            raise _refusal(url, ALLOWED)


def _mongo_store(url: str) -> Store:
    from shunter.store.mongo import MongoStore  # its driver takes long to load: only where wanted

    try:
        return MongoStore(url)
    except ValueError as error:
        scheme, _, rest = url.partition("://")
        shown = f"{scheme}://{rest.rpartition('@')[2]}"  # a password is nobody's business
        raise _refusal(f"{shown} ({error})", ALLOWED) from None


def _refusal(found: str, allowed: str) -> SettingsError:
    return SettingsError("settings", "store.url", found or "nothing", allowed)
