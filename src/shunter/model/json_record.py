"""How the records that clients hand out are written as JSON: one form for all of them. Pure.

A record says of itself what JSON can't have as it stands: a status is written as its word, a
document as the value in it. What is a secret is left out, as it is over HTTP. Shells print these
dicts and programs log them; what travels is written by `wire/`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from shunter.model.document import sealed_data_at


class JsonRecord:
    """What clients hand out, and anybody may write down."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the record as a dict that `json.dumps` takes.

        What says nothing may be left out.
        """
        return plain_fields(self)


def plain_fields(record: Any) -> dict[str, Any]:
    """Return the fields of a struct by their names, also of one that travels as an array.

    Of a callback's address, what may be secret is hidden.
    """
    fields: dict[str, Any]
    if record.__struct_config__.array_like:
        names = record.__struct_fields__
        fields = {name: msgspec.to_builtins(getattr(record, name)) for name in names}
    else:
        fields = msgspec.to_builtins(record)
    if callback := fields.get("callback"):
        # Its patterns take a while to be compiled, and workers' children start quickly.
        from shunter.model.redaction import redacted_callback

        callback["url"] = redacted_callback(callback["url"])
    return fields


def plain_document(document: bytes) -> Any:
    """Return the value in a document; bytes are base64, and what is encrypted says so."""
    if sealed_data_at(document) is not None:
        return {"encrypted": True, "bytes": len(document)}
    value = msgspec.msgpack.decode(document)
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=repr)
    except TypeError:  # JSON has no keys such as None and True, which msgpack has
        return msgspec.to_builtins(_with_text_keys(value), str_keys=True, enc_hook=repr)


def _with_text_keys(value: Any) -> Any:
    match value:
        case dict():
            return {_text_key(key): _with_text_keys(each) for key, each in value.items()}
        case list():
            return [_with_text_keys(each) for each in value]
        case _:
            return value


def _text_key(key: Any) -> Any:
    is_known = isinstance(key, str | bytes | int | float) and not isinstance(key, bool)
    return key if is_known else msgspec.json.encode(key, enc_hook=repr).decode()
