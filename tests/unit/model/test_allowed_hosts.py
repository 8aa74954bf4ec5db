"""Whom jobs may call back: what is listed, and no way around it."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from shunter.model.allowed_hosts import (
    LOOPBACK,
    MAX_URL_LENGTH,
    AllowedHosts,
    allowed_hosts,
    is_same_address,
)
from shunter.model.redaction import redacted_callback

HERE = allowed_hosts()
SOME = allowed_hosts(
    ("hooks.example.com", "*.Partner.org", "10.1.0.0/16", "192.168.7.7", "fd00::/8", "localhost")
)
ALL = allowed_hosts(("0.0.0.0/0", "::/0", "*.com"))


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/x",
        "http://LOCALHOST:8080/x?y#z",
        "https://localhost",
        "http://127.0.0.1:1/",
        "http://127.255.0.9",
        "http://[::1]:80/x",
        "http://[0:0:0:0:0:0:0:1]/",
        "http://[::ffff:127.0.0.1]/",
        "HTTP://localhost/",
    ],
)
def test_this_machine_may_be_called_by_default(url: str) -> None:
    assert HERE.fault(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1/",
        "http://example.com/",
        "http://localhost.example.com/",
        "http://127.0.0.1.nip.io/",
        "http://[::ffff:10.0.0.1]/",
        "http://[64:ff9b::10.0.0.1]/",
        "http://169.254.169.254/latest/meta-data",
        "http://0.0.0.0/",
        "http://[::]/",
        "http://[fe80::1]/",
        "http://[::7f00:1]/",
    ],
)
def test_nothing_else_may_be_called_by_default(url: str) -> None:
    fault = HERE.fault(url)

    assert fault is not None
    assert "are not allowed; allowed are localhost, 127.0.0.0/8, ::1" in fault
    assert "add it to callbacks.allowed_hosts" in fault


@pytest.mark.parametrize(
    "url",
    [
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://0177.0.0.1/",
        "http://127.0.0.1./",
        "http://1.2.3.4.5/",
        "http://0/",
        "http://256.1.1.1/",
        "http://[127.0.0.1]/",
        "http://[::1/",
        "http://[fe80::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://[]/",
        "http://localhost./",
        "http://-localhost/",
        "http://local..host/",
        "http://user@localhost/",
        "http://user:secret@localhost/",
        "http://localhost@evil.example/",
        "http://localhost\\@evil.example/",
        "http://localhost:80:80/",
        "http://localhost:0/",
        "http://localhost:65536/",
        "http://localhost:-1/",
        "http://localhost:/x y",
        "http:///x",
        "http://",
        "http://:80/",
        "localhost/x",
        "//localhost/x",
        "file:///etc/passwd",
        "ftp://localhost/",
        "javascript:alert(1)",
        " http://localhost/",
        "http://localhost/\r\nX-Evil: 1",
        "http://localhost/ä",
        "http://loсalhost/",
        "http://ⓛocalhost/",
        "http://%6cocalhost/",
        "",
        "http://localhost/" + "x" * MAX_URL_LENGTH,
    ],
)
def test_an_odd_spelling_is_refused_and_the_refusal_says_what_to_send(url: str) -> None:
    fault = ALL.fault(url) if "localhost" not in url else HERE.fault(url)

    assert fault is not None
    assert fault.startswith(f"found {redacted_callback(url)[:128]!r}: ")
    assert "secret" not in fault
    assert "send " in fault or "write it in full" in fault


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("https://hooks.example.com/x", True),
        ("https://HOOKS.example.COM:444/x", True),
        ("https://example.com/", False),
        ("https://a.hooks.example.com/", False),
        ("https://hooks.example.com.evil.net/", False),
        ("https://evilhooks.example.com/", False),
        ("https://a.partner.org/", True),
        ("https://a.b.PARTNER.org/", True),
        ("https://partner.org/", False),
        ("https://evilpartner.org/", False),
        ("http://10.1.255.255/", True),
        ("http://10.2.0.0/", False),
        ("http://192.168.7.7:99/", True),
        ("http://192.168.7.8/", False),
        ("http://[fd12::1]/", True),
        ("http://[::ffff:10.1.2.3]/", True),
        ("http://127.0.0.1/", False),
    ],
)
def test_a_host_is_allowed_by_its_name_or_its_address(url: str, is_allowed: bool) -> None:
    assert (SOME.fault(url) is None) == is_allowed


@pytest.mark.parametrize(
    ("host", "address", "is_allowed"),
    [
        ("hooks.example.com", "93.184.216.34", True),
        ("hooks.example.com", "2606:4700::1111", True),
        ("hooks.example.com", "10.1.2.3", True),
        ("hooks.example.com", "10.2.2.3", False),
        ("hooks.example.com", "127.0.0.1", False),
        ("hooks.example.com", "::1", False),
        ("hooks.example.com", "::ffff:127.0.0.1", False),
        ("hooks.example.com", "::ffff:93.184.216.34", True),
        ("hooks.example.com", "64:ff9b::5db8:d822", True),
        ("hooks.example.com", "64:ff9b::a00:1", False),
        ("hooks.example.com", "169.254.169.254", False),
        ("hooks.example.com", "100.64.0.1", False),
        ("hooks.example.com", "0.0.0.0", False),
        ("hooks.example.com", "224.0.0.1", False),
        ("hooks.example.com", "255.255.255.255", False),
        ("hooks.example.com", "ff0e::1", False),
        ("hooks.example.com", "fec0::1", False),
        ("hooks.example.com", "fe80::1%eth0", False),
        ("hooks.example.com", "fd00::1", True),
        ("hooks.example.com", "2002:7f00:1::", False),
        ("hooks.example.com", "::7f00:1", False),
        ("hooks.example.com", "not an address", False),
        ("other.example.com", "93.184.216.34", False),
        ("other.example.com", "10.1.2.3", False),
        ("LOCALHOST", "127.0.0.1", True),
        ("localhost", "::1", True),
        ("localhost", "10.2.2.3", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.4", False),
        ("10.2.2.3", "10.2.2.3", False),
        ("[fd00::1]", "fd00::1", True),
        ("93.184.216.34", "93.184.216.34", False),
    ],
)
def test_what_a_name_leads_to_must_be_public_or_listed(
    host: str, address: str, is_allowed: bool
) -> None:
    assert SOME.may_call(host, address) == is_allowed


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1"]
)
def test_a_special_address_is_listed_only_by_an_entry_of_its_own(address: str) -> None:
    wide = allowed_hosts(("0.0.0.0/0", "::/0", "168.0.0.0/6", "f000::/4"))

    assert not wide.may_call(address, address)
    assert wide.may_call("8.8.8.8", "8.8.8.8")
    assert allowed_hosts((address,)).may_call(address, address)


def test_a_network_that_only_begins_with_special_addresses_does_not_list_them() -> None:
    assert not allowed_hosts(("169.254.0.0/15",)).may_call("169.254.1.1", "169.254.1.1")
    assert allowed_hosts(("169.254.0.0/17",)).may_call("169.254.1.1", "169.254.1.1")


def test_an_empty_list_allows_nobody() -> None:
    fault = allowed_hosts(()).fault("http://localhost/")

    assert fault is not None
    assert "allowed are none" in fault


@pytest.mark.parametrize(
    "entry",
    ["", " ", "http://x", "a b", "*", "*.", "*.*.com", "10.0.0.1/8", "10.0.0.0/33", "1.2.3",
     "0x7f.1", "::g", "x/24", "a..b", "host:80", "127.0.0.1:80"],
)  # fmt: skip
def test_an_entry_that_means_nothing_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="is none"):
        allowed_hosts(("localhost", entry))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("2001:db8::1", "2001:db8:0:0:0:0:0:1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("name", "name", False),
    ],
)
def test_an_address_is_known_in_every_spelling(one: str, other: str, expected: bool) -> None:
    assert is_same_address(one, other) is expected


def test_the_default_is_loopback() -> None:
    assert HERE.entries == LOOPBACK
    assert isinstance(HERE, AllowedHosts)


URL_PARTS = st.sampled_from(
    ["localhost", "127.0.0.1", "[::1]", "evil.example", "10.0.0.1", "@", ":", "/", "\\", "?", "#",
     ".", "80", "0", "%40", "%2e", "\t", " ", "http://", "//", "[", "]", "x", "@localhost"]
)  # fmt: skip


@given(st.lists(URL_PARTS | st.text(max_size=3), max_size=6).map("".join))
def test_what_is_let_through_means_the_same_host_to_those_who_call(text: str) -> None:
    url = f"http://{text}"
    if HERE.fault(url) is None:
        hosts = {URL(url).host, urlsplit(url).hostname}
        assert len(hosts) == 1
        host = hosts.pop() or ""
        address = host if host.startswith("127.") else "127.0.0.1"  # a number is its own address
        assert HERE.may_call(host, address) or "[::1]" in url


@given(st.ip_addresses())
def test_an_address_is_judged_the_same_in_a_url_and_when_called(address: object) -> None:
    host = f"[{address}]" if ":" in str(address) else str(address)

    assert (SOME.fault(f"http://{host}/") is None) == SOME.may_call(str(address), str(address))
