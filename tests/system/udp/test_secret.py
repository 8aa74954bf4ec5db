"""A dispatcher with a secret: what is not signed with it gets no answer, and does nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shunter import JobFailed, JobRefused, UdpClient, Unreachable
from system.udp.views import calculators, counting
from system.udp_peers import SignedPeer, UdpPeer, is_hello
from system.yard import PATIENCE, WITNESS_APP, Station, Yard, free_port, until

SECRET = b"a secret that is long enough"
OTHER = b"one that is as long, but wrong"

Signed = Callable[..., SignedPeer]


@pytest.fixture(scope="module")
def secret_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("secret") / "secret"
    path.write_bytes(SECRET + b"\n")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def station(shared_yard: Yard, secret_file: Path) -> Station:
    return shared_yard.dispatcher(udp__secret_file=str(secret_file), udp__heartbeat_timeout=3.0)


@pytest.fixture
def stranger(station: Station) -> Iterator[UdpPeer]:
    made = UdpPeer(station)
    yield made
    made.close()


@pytest.fixture
def signed(station: Station) -> Iterator[Signed]:
    made: list[SignedPeer] = []

    def make(secret: bytes = SECRET) -> SignedPeer:
        made.append(SignedPeer(station, secret, name=f"peer-{random.randrange(10**9)}"))
        return made[-1].introduced() if secret == SECRET else made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def count(station: Station) -> Callable[[str], int]:
    """How much a counter has risen since the test began."""
    return counting(station)


def address_of(station: Station) -> tuple[str, int]:
    return "127.0.0.1", station.udp_port


def task(number: int, **params: Any) -> bytes:
    packet = {
        "method": "add_task",
        "params": {"task_id": number, "type": "nobody-does-it", **params},
        "packet_type": 1,
        "transmission_id": number,
    }
    return json.dumps(packet).encode()


HEARTBEAT = b'{"method": "heartbeat", "params": {"status": "ready"}, "packet_type": 0}'
UNSIGNED = {
    "a-task": task(1),
    "a-heartbeat": HEARTBEAT,
    "nothing": b"",
    "no-json": b"\xff not json",
    "a-bad-request": b'{"method": "nope", "packet_type": 1, "transmission_id": 3}',
    "no-mac": b'{"sender": "x", "id": 1, "time": 1, "body": "{}"}',
    "deep": b"[" * 600,
}


@pytest.mark.parametrize("packet", UNSIGNED.values(), ids=UNSIGNED.keys())
def test_what_is_not_signed_gets_no_answer_and_is_counted(
    station: Station,
    stranger: UdpPeer,
    count: Callable[[str], int],
    packet: bytes,
) -> None:
    for _ in range(3):
        stranger.say(packet)

    assert stranger.hears_nothing(0.2)
    until(lambda: count("refused_udp_unsigned") == 3)
    assert len(station.process.logged(peer=stranger.address)) == 1
    assert count("jobs_accepted") == 0
    assert stranger.address not in str(calculators(station))


def test_what_is_signed_is_confirmed_and_the_answer_is_signed(
    signed: Signed, count: Callable[[str], int]
) -> None:
    client = signed()

    client.say(task(5))

    assert client.hears() == {"packet_type": 2, "transmission_id": 5}
    assert count("jobs_accepted") == 1


@pytest.mark.parametrize(
    ("secret", "age", "reason"),
    [(OTHER, 0.0, "wrong_mac"), (SECRET, 31.5, "wrong_time"), (SECRET, -31.5, "wrong_time")],
)
def test_another_secret_and_another_time_get_no_answer(
    signed: Signed,
    count: Callable[[str], int],
    secret: bytes,
    age: float,
    reason: str,
) -> None:
    client = signed(secret)

    client.say_as_it_is(client.envelope(task(5), age=age))

    assert client.hears_nothing(0.2)
    until(lambda: count(f"refused_udp_{reason}") == 1)
    assert count("jobs_accepted") == 0


def test_an_envelope_too_large_for_a_packet_is_not_even_opened(
    signed: Signed, count: Callable[[str], int]
) -> None:
    client = signed()
    body = task(5, payload="x" * 1000)
    assert len(body) < 1200 < len(client.envelope(body))

    client.say(body)

    assert client.hears_nothing(0.2)
    until(lambda: count("refused_udp_too_large") == 1)
    assert count("jobs_accepted") == 0


def test_what_fits_into_a_packet_and_not_into_an_envelope_is_not_sent(
    station: Station, shared_yard: Yard, signed: Signed
) -> None:
    calculator = signed()
    calculator.heartbeat(handlers=["large"])
    until(lambda: calculator.address in str(calculators(station)))

    job = shared_yard.client(station).submit("large", "x" * 950)

    with pytest.raises(JobFailed, match=r"as a packet it has 1,[2-4]\d\d bytes"):
        job.result(PATIENCE)
    assert calculator.hears_nothing(0.1)


def test_a_replayed_request_is_answered_to_its_sender_alone_and_done_once(
    signed: Signed, stranger: UdpPeer, count: Callable[[str], int]
) -> None:
    client, thief = signed(), signed()
    envelope = client.envelope(task(5))
    for _ in range(3):
        client.say_as_it_is(envelope)
        assert client.hears() == {"packet_type": 2, "transmission_id": 5}

    for peer in (thief, stranger):
        UdpPeer.say(peer, envelope)
        UdpPeer.hears(peer)
        assert is_hello(peer.raw)
        assert peer.hears_nothing(0.1)

    assert count("jobs_accepted") == 1


def test_a_request_that_a_thief_shows_first_is_the_owner_s_all_the_same(
    signed: Signed, stranger: UdpPeer, count: Callable[[str], int]
) -> None:
    client = signed()
    envelope = client.envelope(task(6))
    stranger.say(envelope)
    stranger.hears()
    assert is_hello(stranger.raw)
    assert count("jobs_accepted") == 0

    client.say_as_it_is(envelope)

    assert client.hears() == {"packet_type": 2, "transmission_id": 6}
    assert count("jobs_accepted") == 1
    assert stranger.hears_nothing(0.1)


def test_what_was_signed_for_another_dispatcher_is_not_done(
    signed: Signed, count: Callable[[str], int]
) -> None:
    client = signed()
    other = f"{'0' * 16}{client.receiver[16:]}"  # the same token, of somebody else

    for receiver in (other, "", client.receiver[:-1]):
        client.say_as_it_is(client.envelope(task(7), receiver=receiver))
        UdpPeer.hears(client)
        assert is_hello(client.raw)

    assert count("jobs_accepted") == 0


def test_a_replayed_refusal_is_looked_at_again_and_does_nothing(
    signed: Signed, count: Callable[[str], int]
) -> None:
    client = signed()
    envelope = client.envelope(b'{"method": "nope", "packet_type": 1, "transmission_id": 3}')

    for _ in range(2):
        client.say_as_it_is(envelope)
        assert client.hears()["error"]["code"] == "method"

    assert count("jobs_accepted") == 0


def test_a_replayed_heartbeat_does_not_make_a_busy_calculator_free(
    station: Station, signed: Signed
) -> None:
    calculator, client = signed(), signed()
    packet = {"status": "ready", "handlers": ["replayed"]}
    ready = calculator.envelope({"method": "heartbeat", "params": packet, "packet_type": 0})
    calculator.say_as_it_is(ready)
    until(lambda: calculator.address in str(calculators(station)))
    calculator.heartbeat("busy", handlers=["replayed"])

    calculator.say_as_it_is(ready)
    client.say(task(5, type="replayed"))
    client.hears()
    assert calculator.hears_nothing(0.3)

    calculator.heartbeat("ready", handlers=["replayed"])
    assert calculator.hears()["method"] == "perform_task"


def test_the_dispatcher_s_own_packets_can_t_be_sent_back_to_it(
    signed: Signed, stranger: UdpPeer, count: Callable[[str], int]
) -> None:
    client = signed()
    client.say(task(5))
    client.hears()

    stranger.say(client.raw)

    assert stranger.hears_nothing(0.2)
    until(lambda: count("refused_udp_wrong_receiver") == 1)


# ---- our own peers


def test_our_calculator_and_our_clients_do_jobs_with_the_secret(
    station: Station, shared_yard: Yard, secret_file: Path
) -> None:
    where = f"127.0.0.1:{station.udp_port}"
    config = shared_yard.config("peers", {"udp.secret_file": str(secret_file)})
    words = ("calculator", "--app", WITNESS_APP, "--dispatcher", where, "--config", str(config))
    calculator = shared_yard.process([*words, "--max-jobs", "1"], "calculator")

    with UdpClient(address_of(station), SECRET) as client:
        assert client.submit("add", 1, 2).result(PATIENCE) == 3
        with pytest.raises(JobRefused, match="at most 1200"):
            client.submit("echo", "x" * 1000)
    submit = ("submit", "--via", "udp", "--dispatcher", where, "--config", str(config))
    done = shared_yard.shunter(*submit, "add", "20", "22", "--wait")
    assert (done.returncode, done.stdout.strip()) == (0, "42"), done.stderr
    assert calculator.terminate() == 0


@pytest.mark.parametrize("secret", [None, OTHER], ids=["none", "another"])
def test_our_client_without_the_secret_hears_nothing(station: Station, secret: bytes) -> None:
    with UdpClient(address_of(station), secret, timeout=0.8) as client, pytest.raises(Unreachable):
        client.submit("add", 1, 2)


# ---- where it may listen


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_beyond_this_host_no_secret_is_a_refusal_that_names_the_remedy(
    yard: Yard, host: str
) -> None:
    station = Station(yard, "open", {"udp.client_address.host": host})

    done = yard.shunter("dispatcher", "--config", str(yard.config("open", station.settings)))

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert f"udp.client_address.host: found {host}" in done.stderr
    assert "udp.secret_file" in done.stderr
    assert "udp.insecure = true" in done.stderr


@pytest.mark.parametrize("key", ["udp.secret_file", "udp.insecure"])
def test_beyond_this_host_it_listens_where_that_is_settled(
    yard: Yard, secret_file: Path, key: str
) -> None:
    is_signed = key == "udp.secret_file"
    value = str(secret_file) if is_signed else True
    station = Station(yard, "open", {"udp.client_address.host": "0.0.0.0", key: value}).start()

    with UdpClient(address_of(station), SECRET if is_signed else None) as client:
        assert client.submit("add", 1, 2).id


def test_a_disabled_gateway_may_be_set_to_any_address(yard: Yard) -> None:
    yard.dispatcher(udp__client_address__host="0.0.0.0", udp__enabled=False)


@pytest.mark.parametrize(
    ("content", "mode"),
    [(None, 0o600), (b"short\n", 0o600), (SECRET, 0o640), (SECRET, 0o604)],
    ids=["missing", "short", "group", "others"],
)
def test_a_secret_that_can_t_be_used_is_a_refusal(
    yard: Yard, content: bytes | None, mode: int
) -> None:
    path = yard.folder / "unusable"
    if content is not None:
        path.write_bytes(content)
        path.chmod(mode)
    config = yard.config("unusable", {"udp.secret_file": str(path), "http.port": free_port()})

    done = yard.shunter("dispatcher", "--config", str(config))

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert f"udp.secret_file: found {path}" in done.stderr
    remedy = "at least 16 bytes" if mode == 0o600 else f"chmod 600 {path}"
    assert remedy in done.stderr
