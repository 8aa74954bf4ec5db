"""With keys, every peer over ZeroMQ shows one, and may do what its role and limits allow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from shunter.client import Client
from shunter.errors import Forbidden, JobFailed, KeyRejected, Unreachable
from shunter.key_file import KeyFile, read_key_file
from shunter.model.worker import Handler
from shunter.wire.messages import Fetch, Hello, Kind, Submit
from shunter.wire.parts import WHOLE_BYTES
from system.keyed import KeyedYard
from system.witness import whole_lines
from system.yard import PATIENCE, Yard, until


@pytest.fixture(scope="module")
def keyed(shared_yard: Yard) -> KeyedYard:
    keyed = KeyedYard(
        shared_yard,
        keys={
            "shop": ["client"],
            "adds": ["worker", "--types", "add"],
            "all": ["worker"],
            "watcher": ["reader"],
            "boss": ["operator"],
            "theirs": ["client", "--namespace", "theirs"],
            "their-boss": ["operator", "--namespace", "theirs"],
        },
    )
    keyed.worker("all")
    return keyed


@pytest.fixture
def dealer() -> Iterator[Any]:
    """Connect sockets with the keys of others, as a thief would."""
    context: zmq.Context[Any] = zmq.Context()
    sockets = []

    def connect(address: str, key: KeyFile | None, *, identity: bytes = b"") -> Any:
        socket = context.socket(zmq.DEALER)
        socket.linger = 0
        if identity:
            socket.setsockopt(zmq.IDENTITY, identity)
        if key is not None:
            socket.curve_publickey, socket.curve_secretkey = (
                key.public.encode(),
                key.secret.encode(),
            )
            socket.curve_serverkey = (key.server or "").encode()
        socket.connect(address)
        sockets.append(socket)
        return socket

    yield connect
    for socket in sockets:
        socket.close()
    context.term()


def hears(socket: Any) -> list[bytes]:
    assert socket.poll(PATIENCE * 1000), "nothing was answered"
    return list(socket.recv_multipart())


def test_a_client_with_a_key_has_its_jobs_done_by_a_worker_with_one(keyed: KeyedYard) -> None:
    with Client(keyed.station.frontend, key_file=keyed.file("shop")) as client:
        assert client.submit("add", 1, 2).result(timeout=PATIENCE) == 3


def test_a_reader_fetches_a_large_result_which_comes_in_parts(keyed: KeyedYard) -> None:
    size = 2 * WHOLE_BYTES
    with (
        Client(keyed.station.frontend, key_file=keyed.file("shop")) as client,
        Client(keyed.station.frontend, key_file=keyed.file("watcher")) as reader,
    ):
        job = client.submit("echo", "x" * size)
        assert len(job.result(timeout=PATIENCE)) == size

        assert len(reader.job_handle(job.id).result(timeout=PATIENCE)) == size


def rejection(keyed: KeyedYard, **options: Any) -> str:
    """Return why a client is rejected; on a busy machine it may hear nothing at first."""

    def said() -> str:
        with Client(keyed.station.frontend, timeout=2.0, **options) as client:
            try:
                client.submit("add", 1, 2)
            except Unreachable as error:
                return str(error) if isinstance(error, KeyRejected) else ""
            raise AssertionError("it was let in")

    return until(said)


def test_without_a_key_nobody_is_heard(keyed: KeyedYard) -> None:
    assert "talks only to those who show a key; name yours" in rejection(keyed)


def test_a_key_of_another_system_opens_nothing(keyed: KeyedYard, yard: Yard) -> None:
    own = read_key_file(str(keyed.file("shop")))
    public, secret = (text.decode() for text in zmq.curve_keypair())
    stranger = yard.folder / "stranger.key"
    text = keyed.file("shop").read_text().replace(own.public, public).replace(own.secret, secret)
    stranger.touch(mode=0o600)
    stranger.write_text(text)

    assert "does not know the key that was shown" in rejection(keyed, key_file=stranger)


@pytest.mark.parametrize(
    ("name", "ask", "action"),
    [
        ("shop", lambda client: client.workers(), "see workers"),
        ("watcher", lambda client: client.submit("add", 1, 2), "submit jobs"),
        ("watcher", lambda client: client.cancel(["j"]), "cancel jobs"),
        ("all", lambda client: client.submit("add", 1, 2), "submit jobs"),
        ("all", lambda client: client.jobs(), "see jobs"),
    ],
)
def test_a_key_does_no_more_than_its_role_may(
    keyed: KeyedYard, name: str, ask: Any, action: str
) -> None:
    with (
        Client(keyed.station.frontend, key_file=keyed.file(name)) as client,
        pytest.raises(Forbidden, match=f"may not {action}"),
    ):
        ask(client)


def test_a_clients_key_serves_no_jobs_and_a_workers_only_its_types(
    keyed: KeyedYard, dealer: Any
) -> None:
    def introduced(name: str, worker_id: str, job_type: str) -> str:
        socket = dealer(keyed.station.backend, read_key_file(str(keyed.file(name))))
        hello = Hello(worker_id, 1, (Handler(job_type),), 1, 1)
        socket.send_multipart([b"", Kind.READY.value.encode(), msgspec.msgpack.encode(hello)])
        _, kind, body = hears(socket)
        return f"{kind.decode()} {body!r}"

    assert "may not serve as a worker" in introduced("shop", "shop:w", "add")
    assert "may not serve 'square', only add" in introduced("adds", "adds:w", "square")
    assert "it begins with 'adds:'" in introduced("adds", "all:w", "add")
    assert introduced("adds", "adds:w", "add").startswith("PONG")


def test_the_key_of_a_worker_that_serves_a_type_is_good_for_its_hooks(keyed: KeyedYard) -> None:
    keyed.make("dies", "worker", "--types", "perish")
    config = keyed.yard.config(
        "dies", {"auth.key_file": str(keyed.file("dies")), "worker.max_jobs": 1}
    )
    app = f"{Path(__file__).parents[1] / 'given_up_app.py'}:app"
    words = ["worker", "--app", app, "--types", "perish", "--config", str(config)]
    keyed.yard.process([*words, "--dispatcher", keyed.station.backend], "dies")

    with Client(keyed.station.frontend, key_file=keyed.file("shop")) as client:
        job = client.with_options(effects="at_most_once").submit("perish")
        with pytest.raises(JobFailed):
            job.result(PATIENCE)
        until(lambda: f"given-up {job.id} perish 1 lost" in whole_lines(keyed.yard.witness))
        call = client.job(job.id).hook_job
        until(lambda: client.job(call or "").status.is_final)


def test_a_stolen_workers_key_gets_no_job_by_the_plain_dialogue_under_anothers_name(
    keyed: KeyedYard, dealer: Any
) -> None:
    key = read_key_file(str(keyed.file("all")))
    socket = dealer(keyed.station.backend, key, identity=b"somebody")

    socket.send_multipart([b"", b"READY"])

    assert b"leave their identity to ZeroMQ" in hears(socket)[-1]


def test_plain_peers_with_keys_keep_their_dialogue(keyed: KeyedYard, dealer: Any) -> None:
    keyed.make("plain", "worker", "--types", "default")
    worker = dealer(keyed.station.backend, read_key_file(str(keyed.file("plain"))))
    client = dealer(keyed.station.frontend, read_key_file(str(keyed.file("shop"))))
    worker.send_multipart([b"", b"READY"])

    client.send_multipart([b"", b"work"])
    job = hears(worker)
    while job[-1] == b"PONG":
        job = hears(worker)
    worker.send_multipart([b"", job[-1].upper()])

    assert hears(client) == [b"", b"WORK"]


def test_a_revoked_key_is_refused_within_seconds_on_its_open_connection(keyed: KeyedYard) -> None:
    keyed.make("leaver", "client")
    with Client(keyed.station.frontend, key_file=keyed.file("leaver")) as client:
        client.submit("add", 1, 2).result(timeout=PATIENCE)

        keyed.key("revoke", "leaver")

        def is_refused() -> bool:
            try:
                client.submit("add", 1, 2)
            except (Forbidden, Unreachable):
                return True
            return False

        until(is_refused, within=PATIENCE)
    listed = {it["name"]: it["revoked"] for it in json.loads(keyed.key("ls", "--json"))}
    assert listed["leaver"] is not None
    assert listed["shop"] is None


def test_a_worker_whose_key_is_revoked_is_sent_nothing_more(keyed: KeyedYard, dealer: Any) -> None:
    keyed.make("doomed", "worker", "--types", "doomed_type")
    socket = dealer(keyed.station.backend, read_key_file(str(keyed.file("doomed"))))
    hello = Hello("doomed:w", 1, (Handler("doomed_type"),), 5, 1)
    socket.send_multipart([b"", Kind.READY.value.encode(), msgspec.msgpack.encode(hello)])
    assert hears(socket)[1] == b"PONG"

    keyed.key("revoke", "doomed")
    socket.send_multipart([b"", Kind.READY.value.encode(), msgspec.msgpack.encode(hello)])
    until(lambda: not _answers(socket, hello), within=PATIENCE)
    with Client(keyed.station.frontend, key_file=keyed.file("shop")) as client:
        client.submit("doomed_type")
        client.submit("add", 1, 2).result(timeout=PATIENCE)

    assert not [it for it in _waiting(socket) if it[1] == b"JOBS"]


def _answers(socket: Any, hello: Hello) -> bool:
    """Say READY, and tell whether it is still answered."""
    socket.send_multipart([b"", Kind.READY.value.encode(), msgspec.msgpack.encode(hello)])
    return bool(socket.poll(300)) and socket.recv_multipart()[1] == b"PONG"


def _waiting(socket: Any) -> Iterator[list[bytes]]:
    while socket.poll(0):
        yield socket.recv_multipart()


def test_a_client_knows_nothing_of_the_jobs_of_another_namespace(keyed: KeyedYard) -> None:
    with (
        Client(keyed.station.frontend, key_file=keyed.file("shop")) as ours,
        Client(keyed.station.frontend, key_file=keyed.file("theirs")) as theirs,
    ):
        job = theirs.with_options(delay=3600.0, unique_key="same").submit("add", 1, 2)
        own = ours.with_options(delay=3600.0, unique_key="same").submit("add", 3, 4)

        assert own.id != job.id
        assert [it.id for it in theirs.jobs()] == [job.id]
        assert job.id not in [it.id for it in ours.jobs(limit=1000)]
        assert ours.jobs(job_ids=[job.id]) == []
        assert [it.reason for it in ours.cancel([job.id])] == [
            it.reason.replace("nobody", job.id) for it in ours.cancel(["nobody"])
        ]
        assert theirs.job(job.id).status.word == "queued"


def test_the_operator_of_a_namespace_may_not_change_limits_which_hold_for_all(
    keyed: KeyedYard,
) -> None:
    with (
        Client(keyed.station.frontend, key_file=keyed.file("their-boss")) as their_boss,
        Client(keyed.station.frontend, key_file=keyed.file("boss")) as boss,
    ):
        with pytest.raises(Forbidden, match="is of namespace 'theirs', and limits hold for all"):
            their_boss.limits.set("limited", limit=1)

        assert [it for it in boss.limits.list() if it.type == "limited"] == []
        assert boss.limits.set("limited", limit=3).limits.total == 3


def test_an_operator_cancels_anybodys_job_and_the_log_says_so(keyed: KeyedYard) -> None:
    with (
        Client(keyed.station.frontend, key_file=keyed.file("theirs")) as theirs,
        Client(keyed.station.frontend, key_file=keyed.file("boss")) as boss,
    ):
        job = theirs.with_options(delay=3600.0).submit("add", 1, 2)
        boss.cancel([job.id])
        assert theirs.job(job.id).status.word == "cancelled"
        again = boss.with_options(delay=3600.0).rerun(job.id)
        assert theirs.job(again.id).rerun_of == job.id

    done = keyed.yard.shunter("audit", "--json", "--limit", "3", "--store", keyed.store)
    newest = [(it["actor"], it["action"], it["target"]) for it in json.loads(done.stdout)]
    assert newest[:2] == [("boss", "rerun job", job.id), ("boss", "cancel job", job.id)]


def test_what_was_done_with_keys_is_in_the_audit_log(keyed: KeyedYard) -> None:
    done = keyed.yard.shunter("audit", "--json", "--store", keyed.store)

    entries = json.loads(done.stdout)
    assert {(it["action"], it["target"]) for it in entries} >= {
        ("make key", "dispatchers"),
        ("make key", "shop"),
    }
    assert all("@" in it["actor"] for it in entries if it["action"] == "make key")
    for secret in (read_key_file(str(keyed.file("shop"))).token,):
        assert secret not in done.stdout
        assert secret.encode() not in b"".join(
            path.read_bytes() for path in keyed.yard.folder.glob("keyed.db*")
        )


def test_a_dispatcher_with_the_key_of_another_role_does_not_start(keyed: KeyedYard) -> None:
    config = keyed.yard.config("wrong", {"auth.key_file": str(keyed.file("shop"))})

    done = keyed.yard.shunter("dispatcher", "--config", str(config))

    assert done.returncode == 2
    assert "the key of a client; allowed: a key that `shunter key new NAME" in done.stderr


def test_forged_messages_from_a_good_key_change_nothing(keyed: KeyedYard, dealer: Any) -> None:
    key = read_key_file(str(keyed.file("watcher")))
    socket = dealer(keyed.station.frontend, key)
    body = msgspec.msgpack.encode(Fetch(1, ("nobody",)))
    socket.send_multipart([b"", Kind.SUBMIT.value.encode(), msgspec.msgpack.encode(Submit(7, ()))])
    assert hears(socket)[1] == b"ERROR"
    socket.send_multipart([b"", Kind.FETCH.value.encode(), body])

    assert hears(socket)[1] == b"FETCH"
