"""What runs print that share a process: each its own, and never without end."""

from __future__ import annotations

import contextvars
import io

from hypothesis import given
from hypothesis import strategies as st

from shunter.model.journal import LiveLog
from shunter.worker.pool.run_output import OutputRouter, RunOutput, output_of_run


def test_a_short_text_is_kept_whole() -> None:
    output = RunOutput(100)
    output.write("a")
    output.write("b\n")

    assert output.text() == "ab\n"
    assert output.text() == "ab\n"
    assert RunOutput(100).text() == ""


@given(st.lists(st.text(alphabet="xyz", min_size=1, max_size=40), min_size=1, max_size=200))
def test_of_a_long_text_the_beginning_and_the_end_are_kept(parts: list[str]) -> None:
    output, whole = RunOutput(20), "".join(parts)
    for part in parts:
        output.write(part)

    text = output.text()

    if len(whole) <= 20:
        assert text == whole
    else:
        head, note, tail = text.partition("\n[... ")
        count, _, tail = tail.partition(" characters left out ...]\n")
        assert note
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert len(head) + len(tail) + int(count) == len(whole)
        assert len(head) + len(tail) <= 20


def test_what_belongs_to_no_run_goes_where_it_went_before() -> None:
    stream, output = io.StringIO(), RunOutput(100)
    router = OutputRouter(stream)
    own = contextvars.copy_context()
    own.run(output_of_run.set, output)

    own.run(print, "mine", file=router)
    print("nobody's", file=router)
    own.run(router.writelines, ["a", "b"])

    assert output.text() == "mine\nab"
    assert stream.getvalue() == "nobody's\n"
    assert router.getvalue() == "nobody's\n"


@given(st.lists(st.text(alphabet="xä\n", min_size=1, max_size=40), min_size=1, max_size=100))
def test_a_look_shows_the_end_of_what_was_written_and_changes_nothing(parts: list[str]) -> None:
    output, other, whole = RunOutput(200), RunOutput(200), "".join(parts)
    for part in parts:
        output.write(part)
        other.write(part)
        seen = output.peek(30)
        assert seen.start + len(seen.text.encode()) == output.printed

    assert whole.endswith(seen.text.lstrip("\ufffd"))
    assert output.printed == len(whole.encode())
    assert output.text() == other.text()


def test_a_look_at_a_short_text_shows_all_of_it() -> None:
    output = RunOutput(10)
    output.write("head\n")
    output.write("tail\n")

    assert output.peek(100) == LiveLog(0, "head\ntail\n")


def test_what_no_encoding_has_is_written_as_other_children_write_it() -> None:
    output = RunOutput(100)
    output.write("a\ud800b\n")

    assert output.text() == "a\\ud800b\n"
