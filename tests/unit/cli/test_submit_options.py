"""What `shunter submit` makes of its flags."""

from __future__ import annotations

import pytest

from shunter.cli.job_submission import options_from
from shunter.errors import AppError
from shunter.model.retry import Retry
from shunter.model.unique import Unique


def test_what_was_not_said_is_left_out() -> None:
    assert options_from(retries=None, priority=None) == {}
    assert options_from(retries=2, expires_in=5.0) == {"retry": Retry(limit=2), "expires_in": 5.0}


def test_a_key_alone_is_a_key_and_with_a_rule_it_is_unique() -> None:
    alone = options_from(retries=None, unique_key="k")
    ruled = options_from(retries=None, unique_key="k", unique=(60.0, None, "replace"))

    assert alone == {"unique_key": "k"}
    assert ruled == {"unique": Unique("k", within=60.0, then="replace")}


def test_a_rule_without_a_key_is_refused() -> None:
    with pytest.raises(AppError, match="go with --unique-key"):
        options_from(retries=None, unique=(None, "queued", None))
