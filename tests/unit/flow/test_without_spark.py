"""Who has no PySpark is told how to get it, and how to go without."""

from __future__ import annotations

import pytest

from shunter.errors import FlowError
from shunter.flow.runners.spark.session.kinds import pyspark


def test_a_missing_pyspark_is_told_with_both_remedies() -> None:
    with pytest.raises(FlowError) as raised:
        pyspark("pyspark.there_is_no_such_part")

    assert "pip install 'shunter[spark]'" in str(raised.value)
    assert "--on local" in str(raised.value)
