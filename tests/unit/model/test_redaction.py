"""No secret of a URL is shown, wherever in it the secret stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.model.redaction import (
    redacted,
    redacted_callback,
    redacted_url,
    without_callback_of,
    without_secrets_of,
)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("mongodb://u:hunter2@h:27017/db", "mongodb://u:***@h:27017/db"),
        ("mongodb://u:hun@ter2@h,i:1/db", "mongodb://u:***@h,i:1/db"),
        ("mongodb://u:hun/ter2@h/db", "mongodb://u:***@h/db"),
        ("mongodb://u:hun?ter2@h/db", "mongodb://u:***@h/db"),
        ("mongodb://u:hun#ter2@h/db", "mongodb://u:***@h/db"),
        ("mongodb://u:123/hunter2@h/db", "mongodb://u:***@h/db"),
        ("http://h:123/hunter2@home", "http://h:123/hunter2@home"),
        ("mongodb://u:@h/db", "mongodb://u:***@h/db"),
        ("mongodb+srv://u:hunter2@h/db?w=majority", "mongodb+srv://u:***@h/db?w=majority"),
        (
            "mongodb://h/db?tlsCertificateKeyFilePassword=hunter2&tls=true",
            "mongodb://h/db?tlsCertificateKeyFilePassword=***&tls=true",
        ),
        (
            "mongodb://h/db?authMechanismProperties=AWS_SESSION_TOKEN:hunter2,A:b&authSource=x",
            "mongodb://h/db?authMechanismProperties=***&authSource=x",
        ),
        ("mongodb://h/db?password=hunter2", "mongodb://h/db?password=***"),
        ("mongodb://h/db?PassWord=hunter2;x=1", "mongodb://h/db?PassWord=***;x=1"),
        ("mongodb://[::1]:27017/db", "mongodb://[::1]:27017/db"),
        ("mongodb://a:1,b:2,c/db?replicaSet=r", "mongodb://a:1,b:2,c/db?replicaSet=r"),
        ("https://hunter2@h/x", "https://***@h/x"),
        ("mongodb://cert@h/x", "mongodb://cert@h/x"),
        ("https://h/x?key=hunter2&monkey=1", "https://h/x?key=***&monkey=1"),
        ("https://h/x?X-Amz-Signature=hunter2", "https://h/x?X-Amz-Signature=***"),
        ("sqlite:///a:b@c.db", "sqlite:///a:b@c.db"),
        ("tcp://127.0.0.1:5560", "tcp://127.0.0.1:5560"),
    ],
)
def test_urls_keep_all_but_their_secrets(url: str, shown: str) -> None:
    assert redacted_url(url) == shown
    assert redacted(f"found {url} and more") == f"found {shown} and more"


def test_a_value_without_a_scheme_and_one_with_spaces_are_taken_as_a_whole() -> None:
    assert redacted_url("u:hunter2@h/db") == "u:***@h/db"
    assert redacted_url("mongodb://u:hun ter2'\"@h/db") == "mongodb://u:***@h/db"
    assert redacted_url("me@example.com") == "me@example.com"


@given(st.text(min_size=5), st.sampled_from(["mongodb", "mongodb+srv", "https", "amqp"]))
def test_no_password_is_shown_whatever_is_in_it(password: str, scheme: str) -> None:
    secret = f"hunter2{password}hunter2"

    assert "hunter2" not in redacted_url(f"{scheme}://user:{secret}@host:1/db?x=1")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h:1/done?x=1&y=2", "https://h:1/done?x=***&y=***"),
        ("https://h/done?hunter2", "https://h/done?***"),
        ("https://h/done?x=1&hunter2", "https://h/done?x=***&***"),
        ("https://h/done?", "https://h/done?"),
        ("https://h/done#hunter2", "https://h/done"),
        ("https://h/done?x=1#hunter2", "https://h/done?x=***"),
        ("https://u:hunter2@h/done", "https://u:***@h/done"),
        ("https://h/services/T01/B02/hunter2hunter2hunter2", "https://h/services/T01/B02/***"),
        ("https://h/jobs/finished-yesterday", "https://h/jobs/finished-yesterday"),
        ("shunter-udp://x?y=1", "shunter-udp://x?y=1"),
    ],
)
def test_callbacks_show_where_they_go_and_no_more(url: str, shown: str) -> None:
    assert redacted_callback(url) == shown


def test_a_librarys_complaint_does_not_repeat_what_is_secret() -> None:
    url = "mongodb://u:hun%40ter2/abc@h/db?tlsCertificateKeyFilePassword=open%20sesame"

    said = without_secrets_of(url, f"'hun@ter2' is no port of {url}; open sesame, abc")

    assert "ter2" not in said
    assert "sesame" not in said
    assert "abc" not in said
    assert "is no port" in said


def test_a_receivers_answer_does_not_repeat_its_token() -> None:
    url = "https://h/hooks/x7f3q9w2k5m8hunter2?token=open%20sesame&x=1"

    said = without_callback_of(url, "404: no x7f3q9w2k5m8hunter2, open%20sesame, open sesame, 1")

    assert said == "404: no ***, ***, ***, 1"


def test_other_texts_stay_as_they_are() -> None:
    text = "job 7: a:b@c failed at http://h:80/x (see docs), 3 > 2"

    assert redacted(text) == text
