"""What goes to executors by value: types that no module there has."""

from __future__ import annotations

import dataclasses

import msgspec

from shunter.flow.runners.spark.shipping.shipped_code import shipped


def test_a_dataclass_that_msgspec_has_decoded_can_be_sent() -> None:
    kind = dataclasses.make_dataclass("Reading", [("n", int)])
    kind.__module__ = "__main__"
    assert msgspec.convert({"n": 1}, kind) == kind(1)

    sent = shipped(kind, [], what="the stage readings").opened()
    assert sent(2).n == 2
    assert msgspec.convert({"n": 3}, kind) == kind(3)
