"""Which store a URL means."""

from __future__ import annotations

import os

import pytest

from shunter.errors import SettingsError
from shunter.store.memory import MemoryStore
from shunter.store.registry import store_for
from shunter.store.sqlite import SQLiteStore


def test_three_slashes_name_a_file_in_this_directory():
    store = store_for("sqlite:///data/shunter.db")

    assert isinstance(store, SQLiteStore)
    assert store.path == os.path.join(os.getcwd(), "data/shunter.db")


def test_four_slashes_name_a_file_from_the_root():
    store = store_for("sqlite:////var/lib/shunter.db")

    assert isinstance(store, SQLiteStore)
    assert store.path == "/var/lib/shunter.db"


def test_memory_is_a_store_for_tests():
    assert isinstance(store_for("memory://"), MemoryStore)


def test_mongodb_names_a_server_and_a_database():
    assert type(store_for("mongodb://h/d")).__name__ == "MongoStore"
    with pytest.raises(SettingsError, match=r"store\.url: found mongodb://user:\*{3}@h "):
        store_for("mongodb://user:secret@h")


def test_a_password_in_a_url_is_not_repeated():
    with pytest.raises(SettingsError) as refusal:
        store_for("mongodb://user:secret@h")

    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "shunter.db",
        "sqlite:shunter.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:////",
        "sqlite://host/shunter.db",
        "sqlite:///:memory:",
        "memory://here",
        "postgres://host/jobs",
    ],
)
def test_anything_else_is_refused_with_what_is_allowed(url):
    with pytest.raises(SettingsError) as caught:
        store_for(url)

    assert caught.value.key == "store.url"
    assert "sqlite:///relative/path.db" in caught.value.allowed
    assert caught.value.found.startswith(url or "nothing")
