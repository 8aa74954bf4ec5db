"""Of what Java writes, people see what is worth reading."""

from __future__ import annotations

from shunter.flow.runners.spark.session.java_noise import without_noise

TRACE = [
    b'Exception in thread "stream execution thread for shunter-e0f5" StackOverflowError\n',
    b"\tat java.base/java.util.regex.Pattern$Branch.match(Pattern.java:4734)\n",
    b"Caused by: java.lang.Error\n",
    b"\t... 3 more\n",
]


def test_what_is_said_at_each_start_is_left_out() -> None:
    said = [b"WARNING: Using incubator modules: jdk.incubator.vector\n", b"a user's own word\n"]

    assert list(without_noise(said)) == [b"a user's own word\n"]


def test_the_trace_of_a_stopped_stream_is_left_out_and_nothing_else() -> None:
    other = [b'Exception in thread "main" java.lang.Error\n', b"\tat Main.main(Main.java:1)\n"]

    assert list(without_noise([*other, *TRACE, b"after\n", *other])) == [*other, b"after\n", *other]
