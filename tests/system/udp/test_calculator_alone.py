"""Our calculator alone, against a dispatcher that the test plays by hand."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from system.udp.fake_dispatcher import Address, FakeDispatcher, Said, SignedDispatcher
from system.witness import runs_in
from system.yard import PATIENCE, WITNESS_APP, Process, Yard, until

Start = Callable[..., Process]


@pytest.fixture
def dispatcher() -> Iterator[FakeDispatcher]:
    fake = FakeDispatcher()
    yield fake
    fake.close()


@pytest.fixture
def start(yard: Yard, dispatcher: FakeDispatcher) -> Start:
    def started(app: str = WITNESS_APP, *, slots: int = 1, **settings: Any) -> Process:
        config = yard.config(
            "calculator",
            {
                "worker.max_jobs": slots,
                "worker.kill_grace_seconds": 0.2,
                **{key.replace("__", "."): value for key, value in settings.items()},
            },
        )
        host, port = dispatcher.address
        words = ["calculator", "--app", app, "--config", str(config)]
        return yard.process([*words, "--dispatcher", f"{host}:{port}"], "calculator")

    return started


def ready(dispatcher: FakeDispatcher) -> Address:
    """Wait for a free calculator."""
    dispatcher.hears("heartbeat", within=PATIENCE, status="ready")
    return dispatcher.sender


def all_ready(dispatcher: FakeDispatcher, count: int) -> set[Address]:
    """Wait for so many free calculators."""
    seen: set[Address] = set()
    while len(seen) < count:
        seen.add(ready(dispatcher))
    return seen


def completed(dispatcher: FakeDispatcher, **params: Any) -> Said:
    """Take a completion, and confirm it."""
    said = dispatcher.hears("completed_task", within=PATIENCE, **params)
    dispatcher.confirms(said)
    return dict(said["params"])


def test_a_bare_task_goes_as_the_seed_has_it(
    dispatcher: FakeDispatcher, start: Start, yard: Yard
) -> None:
    """An app with one handler, called as a dispatcher's tasks without a type are."""
    app = yard.folder / "bare.py"
    app.write_text(
        "from shunter import App\napp = App()\n@app.job(name='default')\ndef work(): pass\n"
    )
    start(f"{app}:app")
    calculator = ready(dispatcher)
    assert dispatcher.raw == b'{"method":"heartbeat","params":{"status":"ready"},"packet_type":0}'

    dispatcher.says(
        b'{"method": "perform_task", "params": {"task_id": 5}, "packet_type": 1, '
        b'"transmission_id": 1598326709000}',
        calculator,
    )

    dispatcher.hears(None)
    assert dispatcher.raw == b'{"packet_type":2,"transmission_id":1598326709000}'
    dispatcher.hears("heartbeat", status="busy")
    said = dispatcher.hears("completed_task")
    assert said["params"] == {"task_id": 5}
    assert said["packet_type"] == 1
    dispatcher.confirms(said)
    dispatcher.hears("heartbeat", status="ready")


def test_arguments_and_results_travel_with_bytes_and_attempt(
    dispatcher: FakeDispatcher, start: Start
) -> None:
    start()
    calculator = ready(dispatcher)

    dispatcher.performs(1, calculator, task_id=5, type="add", payload=[2, 3], attempt=4)
    said = completed(dispatcher)
    assert min(said.pop("waited"), said.pop("ran")) >= 0
    assert said == {"task_id": 5, "attempt": 4, "result": 5}

    ready(dispatcher)
    value = {"a": {"$bytes": "AP8="}, "b": [1.5, None]}
    dispatcher.performs(2, calculator, task_id="t", type="echo", payload=[value])
    assert completed(dispatcher) == {"task_id": "t", "result": value}

    ready(dispatcher)
    dispatcher.performs(3, calculator, task_id=6, type="add", payload={"left": 1, "right": 1})
    assert completed(dispatcher) == {"task_id": 6, "result": 2}


def test_a_heartbeat_names_the_handlers_and_comes_about_every_second(
    dispatcher: FakeDispatcher, start: Start
) -> None:
    start()
    ready(dispatcher)

    def seconds_of_two() -> float:
        began = time.monotonic()
        for _ in range(2):
            handlers = dispatcher.hears("heartbeat")["params"]["handlers"]
            assert {"add", "fail", "work"} <= set(handlers)
        return time.monotonic() - began

    seconds_of_two()
    assert any(1.0 < seconds_of_two() < 4.0 for _ in range(5))  # on a busy machine not each time


def test_a_task_that_comes_again_is_confirmed_again_and_run_once(
    dispatcher: FakeDispatcher, start: Start, yard: Yard
) -> None:
    start()
    calculator = ready(dispatcher)
    task = dispatcher.performs(1, calculator, task_id=5, type="work", payload=[7, 0.5], attempt=1)

    for _ in range(3):
        assert dispatcher.hears(None)["transmission_id"] == 1
        dispatcher.says(task, calculator)
    assert dispatcher.hears(None)["transmission_id"] == 1
    dispatcher.says({**task, "transmission_id": 2}, calculator)
    assert "error" not in dispatcher.hears(None)
    assert completed(dispatcher, task_id=5)["result"] == 7
    dispatcher.says(task, calculator)
    assert dispatcher.hears(None)["transmission_id"] == 1

    assert dispatcher.hears_no("completed_task", during=0.7)
    assert [len(runs) for runs in runs_in(yard.witness).values()] == [1]


def test_another_task_is_refused_while_one_is_here(
    dispatcher: FakeDispatcher, start: Start
) -> None:
    start()
    calculator = ready(dispatcher)
    dispatcher.performs(1, calculator, task_id=5, type="work", payload=[7, 1.0])
    dispatcher.hears(None)

    dispatcher.performs(2, calculator, task_id=6, type="add", payload=[1, 2])

    refusal = dispatcher.hears(None)
    assert refusal["error"]["code"] == "busy"
    assert refusal["error"]["message"] == "busy with task 5; send it to another"
    assert completed(dispatcher)["task_id"] == 5


def test_a_completion_is_sent_until_it_is_confirmed_and_the_calculator_busy_till_then(
    dispatcher: FakeDispatcher, start: Start
) -> None:
    start()
    calculator = ready(dispatcher)
    dispatcher.performs(1, calculator, task_id=5, type="add", payload=[1, 2])

    first = dispatcher.hears("completed_task")
    assert dispatcher.hears("completed_task") == first
    assert dispatcher.hears_no("heartbeat", during=1.5, status="ready")

    dispatcher.confirms(first)
    dispatcher.hears("heartbeat", status="ready")


def test_the_next_task_stands_for_the_confirmation_of_the_one_before(
    dispatcher: FakeDispatcher, start: Start
) -> None:
    start()
    calculator = ready(dispatcher)
    dispatcher.performs(1, calculator, task_id=5, type="add", payload=[1, 2])
    first = dispatcher.hears("completed_task")

    dispatcher.performs(2, calculator, task_id=6, type="add", payload=[3, 4])

    def next_completion() -> dict[str, Any]:
        while (said := dispatcher.hears("completed_task")) == first:
            pass
        return said

    second = next_completion()
    assert (second["params"]["task_id"], second["params"]["result"]) == (6, 7)
    assert dispatcher.hears("completed_task") == second, "the first is not sent any more"


@pytest.mark.parametrize(
    ("job_type", "payload", "error"),
    [
        ("fail", ["no good"], "ValueError: no good"),
        ("add", ["one", 2], "parameter 'left'"),
        ("blob", [0.01], "the result does not fit"),
        ("fail_at_length", [], "ValueError: \u044f\u044f"),
        ("die", [], "lost: "),
    ],
)
def test_a_failure_is_completed_with_what_went_wrong(
    dispatcher: FakeDispatcher, start: Start, job_type: str, payload: list[Any], error: str
) -> None:
    start()
    calculator = ready(dispatcher)

    dispatcher.performs(1, calculator, task_id=5, type=job_type, payload=payload, attempt=2)

    said = dispatcher.hears("completed_task", within=PATIENCE)
    assert len(dispatcher.raw) <= 1200
    assert said["params"].keys() - {"waited", "ran"} == {"task_id", "attempt", "error"}
    assert error in said["params"]["error"]


def test_a_task_ends_with_its_time_out(dispatcher: FakeDispatcher, start: Start) -> None:
    start()
    calculator = ready(dispatcher)

    dispatcher.performs(1, calculator, task_id=5, type="stubborn", timeout=0.3)

    said = completed(dispatcher)
    assert said["error"].startswith("timeout: ran past its time-out of 0.3 s")


def test_what_it_does_not_do_is_refused(dispatcher: FakeDispatcher, start: Start) -> None:
    start()
    calculator = ready(dispatcher)

    dispatcher.performs(1, calculator, task_id=5, type="unheard-of")
    assert dispatcher.hears(None)["error"]["code"] == "type"
    dispatcher.says({"method": "add_task", "params": {"task_id": 1}, "packet_type": 1,
                     "transmission_id": 2}, calculator)  # fmt: skip
    assert dispatcher.hears(None)["error"]["code"] == "method"
    dispatcher.says({"method": "perform_task", "packet_type": 1, "transmission_id": 3}, calculator)
    assert dispatcher.hears(None)["error"]["code"] == "fields"
    dispatcher.says(b"\x00nonsense", calculator)

    dispatcher.performs(4, calculator, task_id=5, type="add", payload=[1, 2])
    assert completed(dispatcher)["result"] == 3


def test_each_slot_is_a_calculator_and_they_work_side_by_side(
    dispatcher: FakeDispatcher, start: Start, yard: Yard
) -> None:
    start(slots=3)
    seen, gate = all_ready(dispatcher, 3), yard.folder / "gate"

    for number, calculator in enumerate(seen):
        payload = [number, str(gate)]
        dispatcher.performs(number, calculator, task_id=number, type="held", payload=payload)
    until(lambda: len(runs_in(yard.witness)) == 3, what="all three at a time")
    gate.touch()

    assert {completed(dispatcher)["result"] for _ in seen} == {0, 1, 2}


def test_tasks_of_one_name_from_two_clients_do_not_meet(
    dispatcher: FakeDispatcher, start: Start, yard: Yard
) -> None:
    start(slots=2)
    (one, other), gate = all_ready(dispatcher, 2), yard.folder / "gate"

    dispatcher.performs(1, one, task_id=5, type="held", payload=[1, str(gate)])
    dispatcher.hears(None)
    dispatcher.performs(2, other, task_id=5, type="work", payload=[2, 0.0])
    assert dispatcher.hears(None)["error"]["code"] == "busy"
    dispatcher.performs(3, other, task_id=5, type="work", payload=[3, 0.0], job_id="j-3")
    assert "error" not in dispatcher.hears(None)

    assert completed(dispatcher)["result"] == 3
    gate.touch()
    assert completed(dispatcher)["result"] == 1


def test_sigterm_lets_the_task_end_and_takes_nothing_more(
    dispatcher: FakeDispatcher, start: Start
) -> None:
    process = start()
    calculator = ready(dispatcher)
    dispatcher.performs(1, calculator, task_id=5, type="work", payload=[7, 1.0])
    dispatcher.hears("heartbeat", status="busy")

    process.signal(signal.SIGTERM)

    assert completed(dispatcher)["result"] == 7
    assert dispatcher.hears_no("heartbeat", during=0.3, status="ready")
    assert process.exit_code() == 0


def test_sigterm_when_idle_says_busy_and_leaves(dispatcher: FakeDispatcher, start: Start) -> None:
    process = start()
    ready(dispatcher)

    process.signal(signal.SIGTERM)

    dispatcher.hears("heartbeat", status="busy")
    assert process.exit_code() == 0


def test_a_task_that_outlasts_the_grace_is_given_up_by_being_ready(
    dispatcher: FakeDispatcher, start: Start, yard: Yard
) -> None:
    process = start(worker__grace_seconds=0.3)
    calculator = ready(dispatcher)
    dispatcher.performs(1, calculator, task_id=5, type="stubborn")
    until(lambda: runs_in(yard.witness))

    process.signal(signal.SIGTERM)

    dispatcher.hears("heartbeat", status="ready")
    dispatcher.performs(2, calculator, task_id=6, type="add", payload=[1, 2])
    assert dispatcher.hears(None)["error"]["code"] == "busy"
    dispatcher.hears("heartbeat", status="busy")
    assert process.exit_code() == 0
    assert dispatcher.hears_no("completed_task", during=0.1)


def test_kill_9_leaves_no_children(dispatcher: FakeDispatcher, start: Start, yard: Yard) -> None:
    process = start(slots=2)
    calculator = ready(dispatcher)
    dispatcher.performs(1, calculator, task_id=5, type="work", payload=[7, 60.0])
    until(lambda: runs_in(yard.witness))
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= 2

    process.kill()

    until(lambda: not any(_is_alive(child) for child in family))


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    "wrong", ["nonsense", "tcp://127.0.0.1:1", "127.0.0.1:port", "127.0.0.1:0"]
)
def test_a_wrong_address_is_said_in_words(yard: Yard, wrong: str) -> None:
    ended = yard.shunter("calculator", "--app", WITNESS_APP, "--dispatcher", wrong)

    assert ended.returncode == 2, ended.stderr
    assert "shunter: " in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_calculator_whose_key_has_no_rights_says_so(yard: Yard) -> None:
    secret = yard.folder / "secret"
    secret.write_bytes(b"0123456789abcdef")
    secret.chmod(0o600)
    dispatcher = SignedDispatcher(secret.read_bytes())
    host, port = dispatcher.address
    config = yard.config("calculator", {"udp.secret_file": str(secret), "worker.max_jobs": 1})
    words = ["calculator", "--app", WITNESS_APP, "--config", str(config)]
    process = yard.process([*words, "--dispatcher", f"{host}:{port}"], "calculator")

    said, peer = dispatcher.hears_signed()
    assert (said["method"], said["packet_type"]) == ("heartbeat", 1)
    error = {"code": "forbidden", "message": "key 'x' may not perform tasks"}
    answer = {"packet_type": 2, "transmission_id": said["transmission_id"], "error": error}
    dispatcher.says_signed(answer, peer)

    until(lambda: process.logged(action="refused", reason=error["message"]))
    said, _ = dispatcher.hears_signed()
    assert (said["method"], said["packet_type"]) == ("heartbeat", 0), "rights may come later"
    dispatcher.close()
