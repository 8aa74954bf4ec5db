"""Jobs of an app with a codec, in a sandbox: what the store has of them, and what clients see."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from shunter import AesCodec, App, AsyncClient, CodecContext, CodecError, Context, JobFailed, Retry
from shunter.client.sealed_values import is_same_call, opened_job, opened_outcome, sealed_payload
from shunter.codec import SealedField, is_sealed, label_of, seal
from shunter.errors import AppError, JobRefused
from shunter.model.job import ErrorKind, Job, Status
from shunter.model.submission import Submission
from shunter.payload import payload_of
from shunter.testing import Sandbox
from shunter.testing.finish import finish
from shunter.testing.sandbox import SandboxJob
from shunter.wire.messages import Outcome

K1, K2 = bytes([1]) * 32, bytes([2]) * 32
CANARY = "canary-7d1f"


class Flaky:
    """A codec whose service is away for a while."""

    label = "remote"

    def __init__(self) -> None:
        self.away = 0

    def encode(self, data: Any, context: CodecContext) -> bytes:
        return bytes(data)[::-1]

    def decode(self, data: Any, context: CodecContext) -> bytes:
        if self.away:
            self.away -= 1
            raise ConnectionError("no route to the service of keys")
        return bytes(data)[::-1]


def app_with(codec: Any, **options: Any) -> App:
    app = App(codec=codec, **options)

    @app.job
    def echo(text: str) -> str:
        print("was told", text)
        return f"{text}!"

    @app.job(retry=Retry(limit=1, delay=1))
    def fail(ctx: Context, text: str) -> None:
        ctx.progress(1, 2, note=f"at {text}")
        raise ValueError(f"bad {text}")

    @app.job
    def add(a: int) -> int:
        return a

    @app.job
    def odd(text: str) -> object:
        class Odd:
            def __repr__(self) -> str:
                return text

        return {Odd(): text}

    return app


def record_of(sandbox: Sandbox, job: SandboxJob) -> str:
    return repr(sandbox.job(job.id))


def submitted_by(codec: Any, sandbox: Sandbox, payload: bytes) -> SandboxJob:
    """Submit a job of the type echo as a client with another codec would, and let it end."""
    payload = sealed_payload(codec, payload, "theirs", "echo")
    receipts: list[Any] = []
    sandbox.dispatcher.submit([Submission("theirs", "echo", payload)], receipts.extend)
    finish(sandbox.dispatcher.turn())
    sandbox.settle()
    return SandboxJob(sandbox, "theirs")


def test_a_result_comes_back_and_the_store_has_nothing_to_read() -> None:
    with Sandbox(app_with(AesCodec({"k1": K1}))) as sandbox:
        job = sandbox.submit("echo", CANARY)
        assert CANARY not in record_of(sandbox, job)

        assert job.result() == f"{CANARY}!"

        assert CANARY not in record_of(sandbox, job)
        assert job.log == f"was told {CANARY}\n"
        assert job.record.payload is not None
        assert label_of(job.record.payload) == "k1"
        opened = sandbox.opened(job.record)
        assert opened.payload == payload_of(CANARY)
        assert opened.result == msgspec.msgpack.encode(f"{CANARY}!")


def test_errors_notes_and_history_are_sealed_and_the_kind_is_not() -> None:
    with Sandbox(app_with(AesCodec({"k1": K1}))) as sandbox:
        job = sandbox.submit("fail", CANARY)
        sandbox.settle()

        record = job.record
        assert CANARY not in repr(record)
        assert "ValueError" not in repr(record)
        assert record.error is not None
        assert record.error.kind is ErrorKind.EXCEPTION
        assert record.attempt == 2
        with pytest.raises(JobFailed, match=f"ValueError: bad {CANARY}") as failed:
            job.result()
        assert f"bad {CANARY}" in (failed.value.traceback or "")
        opened = sandbox.opened(record)
        assert opened.progress is not None
        assert opened.progress.note == f"at {CANARY}"
        assert [past.message for past in opened.history] == [f"ValueError: bad {CANARY}"] * 2


def test_a_hook_is_called_for_a_sealed_job_and_what_it_prints_is_sealed() -> None:
    app, told = app_with(AesCodec({"k1": K1})), list[str]()

    @app.on_final_failure
    def note(ctx: Context, error: BaseException) -> None:
        told.append(f"{ctx.job_id} {error}")
        print(CANARY)

    with Sandbox(app) as sandbox:
        job = sandbox.with_options(effects="at_most_once").submit("echo", CANARY)
        sandbox.crash_next()
        sandbox.settle()

        call = sandbox.job(job.record.hook_job or "")
        assert [job.id in line and "failed (lost)" in line for line in told] == [True]
        assert CANARY not in repr(call)
        assert sandbox.opened(call).log == f"{CANARY}\n"
        assert SandboxJob(sandbox, call.id).result() is None
        assert sandbox.rerun(call.id).result() is None
        assert len(told) == 2


@pytest.mark.parametrize("job_type", ["add", "odd"])
def test_refusals_that_quote_data_are_sealed_too(job_type: str) -> None:
    with Sandbox(app_with(AesCodec({"k1": K1}))) as sandbox:
        job = sandbox.submit(job_type, CANARY)

        with pytest.raises(JobFailed, match="handler"):
            job.result()

        assert job.record.error is not None
        assert job.record.error.kind is ErrorKind.REFUSED
        assert CANARY not in repr(job.record)


def test_jobs_that_wait_while_keys_change_are_done_all_the_same() -> None:
    app = app_with(AesCodec({"k1": K1}))
    with Sandbox(app) as sandbox:
        before = sandbox.with_options(delay=10.0).submit("echo", "before")
        app.codec = AesCodec({"k2": K2, "k1": K1}, current="k2")
        after = sandbox.submit("echo", "after")
        sandbox.settle()

        assert (before.result(), after.result()) == ("before!", "after!")
        assert before.record.payload is not None
        assert before.record.result is not None
        assert label_of(before.record.payload) == "k1"
        assert label_of(before.record.result) == "k2"


def test_a_key_that_is_missing_fails_the_job_for_good_and_names_itself() -> None:
    app = app_with(AesCodec({"k1": K1}))
    with Sandbox(app) as sandbox:
        job = sandbox.submit("fail", CANARY)
        app.codec = AesCodec({"k2": K2})
        sandbox.settle()

        error = job.record.error
        assert job.status is Status.FAILED
        assert job.record.attempt == 1
        assert error is not None
        assert error.kind is ErrorKind.REFUSED
        assert f"the payload of job {job.id} is encrypted with key 'k1'" in error.message
        assert "add that key" in error.message


def test_another_key_of_the_same_name_fails_the_job_for_good() -> None:
    app = app_with(AesCodec({"k1": K1}))
    with Sandbox(app) as sandbox:
        job = sandbox.submit("echo", CANARY)
        app.codec = AesCodec({"k1": K2})
        sandbox.settle()

        assert job.record.error is not None
        assert "does not open with key 'k1'" in job.record.error.message
        assert job.status is Status.FAILED


def test_a_payload_of_another_job_is_refused() -> None:
    app = app_with(AesCodec({"k1": K1}))
    with Sandbox(app) as sandbox:
        stolen = sandbox.submit("echo", CANARY).record.payload
        assert stolen is not None

        error = submitted_by(None, sandbox, stolen).record.error

        assert error is not None
        assert "of another job" in error.message


def test_a_result_of_another_job_is_not_believed() -> None:
    with Sandbox(app_with(AesCodec({"k1": K1}))) as sandbox:
        one, other = sandbox.submit("echo", "one"), sandbox.submit("echo", "other")
        sandbox.settle()
        swapped = replace(one.record, result=other.record.result)

        assert opened_job(sandbox.codec, swapped).result == other.record.result


@pytest.mark.parametrize("accept_plain", [False, True])
def test_plain_payloads_are_refused_unless_the_app_takes_them(accept_plain: bool) -> None:
    app = app_with(AesCodec({"k1": K1}), accept_plain=accept_plain)
    with Sandbox(app) as sandbox:
        record = submitted_by(None, sandbox, payload_of(CANARY)).record

        if accept_plain:
            assert record.result is not None
            assert is_sealed(record.result)
            with pytest.raises(CodecError, match=r"key 'k1'.*Client\(codec=app.codec\)"):
                opened_outcome(None, Outcome(record.id, record.status, record.result))
        else:
            assert record.error is not None
            assert record.error.kind is ErrorKind.REFUSED
            assert "accept_plain=True" in record.error.message


def test_a_worker_without_a_codec_refuses_what_it_can_not_read() -> None:
    with Sandbox(app_with(None)) as sandbox:
        job = submitted_by(AesCodec({"k1": K1}), sandbox, payload_of(CANARY))

        assert job.record.error is not None
        assert "encrypted with key 'k1', and this worker's app has no codec" in (
            job.record.error.message
        )


def test_the_same_call_under_a_unique_key_is_the_same_job_and_another_is_refused() -> None:
    app = app_with(AesCodec({"k1": K1}))
    with Sandbox(app) as sandbox:
        first = sandbox.with_options(unique_key="once").submit("echo", CANARY)
        # Also when the key has changed in between.
        app.codec = AesCodec({"k2": K2, "k1": K1}, current="k2")
        once = sandbox.with_options(unique_key="once")

        assert once.submit("echo", CANARY).id == first.id
        with pytest.raises(JobRefused, match="type or payload differs"):
            once.submit("echo", "something else")
        with pytest.raises(JobRefused, match="type or payload differs"):
            once.submit("fail", CANARY)


def test_a_job_of_another_type_is_never_taken_for_the_same_whatever_the_codec_binds() -> None:
    codec, payload = Flaky(), payload_of("text")
    sealed = sealed_payload(codec, payload, "one", "echo")
    holder = Job(id="one", type="echo", created=0.0, updated=0.0, payload=sealed)

    assert is_same_call(codec, sealed, holder, job_id="two", type="echo")
    assert not is_same_call(codec, sealed, holder, job_id="two", type="fail")
    assert not is_same_call(codec, payload_of("other"), holder, job_id="two", type="echo")


def test_handlers_submit_jobs_of_their_app_encrypted_without_being_told() -> None:
    app = app_with(AesCodec({"k1": K1}))

    @app.job
    def small(text: str) -> str:
        return text[::-1]

    @app.job
    async def large(text: str) -> str:
        async with AsyncClient() as client:
            again = client.with_options(unique_key="u")
            first = await again.submit(small, text)
            assert (await again.submit(small, text)).id == first.id
            assert (await again.submit(small, text)).type == "small"
            return await first.result()

    with Sandbox(app) as sandbox:
        job = sandbox.submit(large, CANARY)

        assert job.result() == CANARY[::-1]
        for each in finish(sandbox.store.get(list(sandbox.store._jobs), payload=True)):
            assert each is not None
            assert CANARY not in repr(each)
            assert CANARY[::-1] not in repr(each)


def test_a_service_of_keys_that_is_away_is_tried_again() -> None:
    codec = Flaky()
    with Sandbox(app_with(codec)) as sandbox:
        job = sandbox.with_options(retry=Retry(limit=2, delay=1)).submit("echo", "text")
        codec.away = 1
        sandbox.settle()

        assert job.result() == "text!"
        (past,) = job.record.history
        assert "Flaky could not decode the payload, it raised ConnectionError: no route" in (
            past.message
        )


def test_an_app_tells_a_key_from_a_codec_without_showing_it() -> None:
    with pytest.raises(AppError, match="is no codec") as found:
        App(codec="a secret key")  # type: ignore[arg-type]
    assert "secret" not in str(found.value)


def test_what_is_sealed_already_is_sent_as_it_is() -> None:
    codec = AesCodec({"k1": K1})
    app = app_with(codec)
    sealed = seal(codec, payload_of("text"), CodecContext(SealedField.PAYLOAD, "", "echo"))

    @app.job
    async def forward() -> str:
        async with AsyncClient(codec=codec) as client:
            return await (await client.submit_raw("echo", sealed)).result()

    with Sandbox(app) as sandbox:
        assert sandbox.submit(forward).result() == "text!"


def test_what_is_encrypted_for_one_job_is_sealed_anew_for_its_rerun() -> None:
    with Sandbox(app_with(AesCodec({"k1": K1}))) as sandbox:
        first = sandbox.submit("echo", CANARY)
        first.result()

        again = sandbox.rerun(first.id)

        assert again.result() == f"{CANARY}!"
        payload = again.record.payload
        assert payload is not None
        assert is_sealed(payload)
        assert payload != first.record.payload
