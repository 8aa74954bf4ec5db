"""Which errors are tried again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shunter.model.limits import option_faults
from shunter.model.option_types import option_type_faults
from shunter.model.retry import Retry, error_name


class OutOfStock(LookupError):
    pass


@pytest.mark.parametrize(
    ("policy", "error", "expected"),
    [
        (Retry(), ValueError(), True),
        (Retry(on=(OSError,)), ConnectionError(), True),
        (Retry(on=(OSError,)), ValueError(), False),
        (Retry(on=("OSError",)), ConnectionError(), True),
        (Retry(never=(LookupError,)), OutOfStock(), False),
        (Retry(never=(LookupError,)), ValueError(), True),
        (Retry(on=(LookupError,), never=(OutOfStock,)), OutOfStock(), False),
        (Retry(on=(LookupError,), never=(OutOfStock,)), KeyError(), True),
    ],
)
def test_an_error_is_covered_by_its_class_or_an_ancestors(
    policy: Retry, error: Exception, expected: bool
) -> None:
    assert policy.covers(error) is expected


def test_classes_travel_as_names() -> None:
    policy = Retry(limit=2, on=(ValueError, OutOfStock), never=KeyError)  # type: ignore[arg-type]

    assert policy.on == ("ValueError", f"{__name__}.OutOfStock")
    assert policy.never == ("KeyError",)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(policy), type=Retry) == policy


def test_a_policy_without_classes_is_written_as_it_was() -> None:
    assert msgspec.to_builtins(Retry(limit=2)) == {"limit": 2}


@pytest.mark.parametrize("wrong", [(int,), (3,), ValueError("an instance"), 7])
def test_what_is_no_class_of_errors_is_refused_with_the_job_that_has_it(wrong: Any) -> None:
    for field in ("on", "never"):
        ((found, reason),) = option_type_faults({"retry": Retry(**{field: wrong})})

        assert found == f"retry.{field}"
        assert f"; name classes of exceptions: Retry({field}=(ValueError,))" in reason


@pytest.mark.parametrize("names", [("",), ("x" * 129,), ("E",) * 17])
def test_names_are_bounded(names: tuple[str, ...]) -> None:
    faults = option_faults(priority=None, timeout=None, retry=Retry(never=names))

    assert [field for field, _ in faults] == ["retry.never"]


def test_a_class_of_python_itself_needs_no_module() -> None:
    assert error_name(TimeoutError) == "TimeoutError"
