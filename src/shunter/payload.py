"""How arguments and results become bytes, and how bytes become checked arguments.

A payload is one msgpack value. A map holds keyword arguments, and under the reserved key `*` a
list of positional ones; an array holds positional arguments; nil means none; anything else is
one positional argument. A result is whatever msgspec can encode.
Must not know jobs, processes or sockets. Rules: docs/spec/jobs.md.
"""

from __future__ import annotations

import inspect
import re
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn, get_type_hints

import msgspec
from msgspec.structs import astuple

from shunter.context import PROVIDED, Context
from shunter.errors import AppError

POSITIONAL_KEY = "*"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode
_AT = re.compile(r" - at `\$\.(?P<path>.+)`\Z")
_MISSING = re.compile(r"missing required field `(?P<name>.+)`")
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_NO_ARGUMENTS = b"\x80"

NOTHING: Mapping[Any, Any] = {}

Arguments = tuple[list[Any], dict[str, Any]]


def payload_of(*args: Any, **kwargs: Any) -> bytes:
    """Encode the arguments of a call, or raise an AppError that says which can't be."""
    if args and kwargs:
        kwargs[POSITIONAL_KEY] = args
    try:
        return _encode(kwargs or args or None)
    except Exception as error:
        raise AppError(
            f"these arguments can't be sent: {error}; pass plain values, datetimes, "
            "dataclasses or msgspec structs"
        ) from None


def payload_of_parts(args: Any, kwargs: Any) -> bytes:
    """Encode arguments that come as a list and a mapping, or raise an AppError."""
    if args is not None and (not isinstance(args, Sequence) or isinstance(args, (str, bytes))):
        raise AppError(
            f"args: found {args!r:.200}; pass a list of arguments, such as [{args!r:.80}]"
        )
    if kwargs is not None and not (isinstance(kwargs, Mapping) and all(map(_is_text, kwargs))):
        raise AppError(f"kwargs: found {kwargs!r:.200}; pass names and values, as in {{'n': 1}}")
    return payload_of(*(args or ()), **(kwargs or {}))


def _is_text(name: object) -> bool:
    return isinstance(name, str)


def payload_of_call(call: Any) -> bytes:
    """Encode one of many calls: a tuple or list of arguments, a dict of named ones, or a value."""
    if isinstance(call, dict):
        return payload_of(**call)
    if isinstance(call, (tuple, list)):
        return payload_of(*call)
    return payload_of(call)


def result_of(value: Any) -> bytes:
    """Encode what a handler returned, or raise an AppError that names its type."""
    try:
        return _encode(value)
    except Exception as error:
        raise AppError(
            f"returned a {type(value).__qualname__} that can't be sent: {error}; return plain "
            "values, datetimes, dataclasses or msgspec structs"
        ) from None


class Parameters:
    """The signature of one handler: reads payloads into its arguments.

    Most payloads are decoded, checked and ordered in one step; only what does not fit that is
    taken apart by hand, to be bound as Python binds a call, or refused with a precise reason.
    """

    def __init__(
        self, handler: str, function: Callable[..., Any], provided: Collection[Any] = ()
    ) -> None:
        self._handler = handler
        hints = self._hints(function)
        self._injected_at: list[tuple[int, Any]] = []
        self._injected_names: dict[str, Any] = {}
        self._positional: list[str] = []
        self._named: list[str] = []
        self._only_positional: list[str] = []
        self._spill: msgspec.msgpack.Decoder[list[Any]] | None = None
        self._extra: msgspec.msgpack.Decoder[dict[str, Any]] | None = None
        fields: list[tuple[Any, ...]] = []
        for name, parameter in inspect.signature(function).parameters.items():
            annotation = hints.get(name, Any)
            if parameter.default is PROVIDED or annotation is Context or annotation in provided:
                self._inject(name, parameter, annotation)
            elif parameter.kind is parameter.VAR_POSITIONAL:
                self._spill = self._decoder(list[annotation])  # type: ignore[valid-type]
            elif parameter.kind is parameter.VAR_KEYWORD:
                self._extra = self._decoder(dict[str, annotation])  # type: ignore[valid-type]
            else:
                fields.append((name, annotation, *_default(parameter)))
                if parameter.kind is parameter.KEYWORD_ONLY:
                    self._named.append(name)
                else:
                    self._positional.append(name)
                if parameter.kind is parameter.POSITIONAL_ONLY:
                    self._only_positional.append(name)
        self.required = [name for name, _, *default in fields if not default]
        self._by_name = self._decoder(_struct(fields, by_order=False))
        self._by_order: msgspec.msgpack.Decoder[Any] | None = None
        if not self._named and self._spill is None:
            self._by_order = self._decoder(_struct(fields, by_order=True))
        self._is_open = self._extra is not None or bool(self._only_positional)

    @property
    def takes_context(self) -> bool:
        """True if the context is one of what nobody sends."""
        given = [kind for _, kind in self._injected_at]
        return Context in given or Context in self._injected_names.values()

    def read(
        self, payload: bytes, context: Context, resources: Mapping[Any, Any] = NOTHING
    ) -> Arguments:
        """Return what to call the handler with, or raise an AppError.

        `resources` has, by type, what is not in the payload.
        """
        values = self._read_at_once(payload)
        spilled: list[Any] = []
        extra: dict[str, Any] = {}
        if values is None:
            values, spilled, extra = self._read_by_hand(payload)
        if self._named:
            split = len(self._positional)
            extra.update(zip(self._named, values[split:], strict=True))
            del values[split:]
        for at, kind in self._injected_at:
            values.insert(at, context if kind is Context else self._resource(kind, resources))
        for name, kind in self._injected_names.items():
            extra[name] = context if kind is Context else self._resource(kind, resources)
        if spilled:
            values += spilled
        return values, extra

    def _read_at_once(self, payload: bytes) -> list[Any] | None:
        first = payload[0] if payload else 0xC1
        try:
            if first & 0xF0 == 0x90 or first == 0xDC or first == 0xDD:
                if self._by_order is not None:
                    return list(astuple(self._by_order.decode(payload)))
            elif first == 0xC0:
                return list(astuple(self._by_name.decode(_NO_ARGUMENTS)))
            elif (first & 0xF0 == 0x80 or first == 0xDE or first == 0xDF) and not self._is_open:
                return list(astuple(self._by_name.decode(payload)))
        except _UNREADABLE:
            pass
        return None

    def _read_by_hand(self, payload: bytes) -> tuple[list[Any], list[Any], dict[str, Any]]:
        try:
            value = _decode(payload)
        except _UNREADABLE as error:
            self._refuse(f"the payload is not msgpack: {error}; encode one msgpack value")
        args, kwargs = self._call_of(value)
        spilled = args[len(self._positional) :]
        if spilled and self._spill is None:
            takes = len(self._positional)
            self._refuse(f"{len(args)} positional arguments were given, it takes {takes}")
        given = dict(zip(self._positional, args, strict=False))
        extra = {}
        for name, argument in kwargs.items():
            if not self._takes(name):
                extra[name] = argument
            elif name in given:
                self._refuse(f"parameter {name!r} was given twice, by position and by name")
            else:
                given[name] = argument
        if extra and self._extra is None:
            self._refuse(f"it has no parameter {_listed(extra)}; it has {self._signature()}")
        values = list(astuple(self._checked(self._by_name, given)))
        if extra and self._extra is not None:
            extra = self._checked(self._extra, extra)
        if spilled and self._spill is not None:
            spilled = self._checked(self._spill, spilled)
        return values, spilled, extra

    def _call_of(self, value: Any) -> tuple[list[Any], dict[str, Any]]:
        if value is None:
            return [], {}
        if isinstance(value, list):
            return value, {}
        if not isinstance(value, dict):
            return [value], {}
        args = value.pop(POSITIONAL_KEY, [])
        if not isinstance(args, list):
            self._refuse(f"the key '*' holds {_short(args)}; it holds a list of arguments")
        for name in value:
            if not isinstance(name, str):
                self._refuse(f"a keyword is {_short(name)}; keywords are strings")
        return args, value

    def _checked(self, decoder: msgspec.msgpack.Decoder[Any], given: Any) -> Any:
        try:
            return decoder.decode(_encode(given))
        except msgspec.ValidationError as error:
            message = str(error)
        at = _AT.search(message)
        if at is None:
            missing = _MISSING.search(message)
            if missing is None:
                self._refuse(f"{message}; found {_short(given)}")
            self._refuse(f"parameter {missing['name']!r} is missing, and has no default")
        name = re.split(r"[.\[]", at["path"], maxsplit=1)[0]
        found = _short(given[name]) if isinstance(given, dict) and name in given else _short(given)
        return self._refuse(f"parameter {at['path']!r}: {message[: at.start()]}; found {found}")

    def _takes(self, name: str) -> bool:
        named = name in self._positional or name in self._named
        return named and name not in self._only_positional

    def _signature(self) -> str:
        by_position = [f"{name!r} (by position)" for name in self._only_positional]
        by_name = [name for name in self._positional + self._named if self._takes(name)]
        return ", ".join([*by_position, *map(repr, by_name)]) or "none"

    def _refuse(self, reason: str) -> NoReturn:
        raise AppError(f"handler {self._handler!r}: {reason}")

    def _inject(self, name: str, parameter: inspect.Parameter, kind: Any) -> None:
        """Note a parameter that nobody sends: the context, or what a setup yields."""
        shown = getattr(kind, "__name__", str(kind))
        if kind in self._injected_names.values() or kind in dict(self._injected_at).values():
            self._refuse(f"{name!r} is a second {shown}; one is enough")
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            self._refuse(f"{parameter} can't be the {shown}; give it a parameter of its own")
        if parameter.kind is parameter.KEYWORD_ONLY:
            self._injected_names[name] = kind
        else:
            self._injected_at.append((len(self._positional) + len(self._injected_at), kind))

    def _resource(self, kind: Any, resources: Mapping[Any, Any]) -> Any:
        if kind not in resources:
            shown = getattr(kind, "__name__", str(kind))
            self._refuse(f"it wants {shown}, and no setup is open that yields it")
        return resources[kind]

    def _hints(self, function: Callable[..., Any]) -> dict[str, Any]:
        try:
            return get_type_hints(function, include_extras=True)
        except Exception as error:
            self._refuse(
                f"its annotations can't be resolved: {error}; define or import their types "
                "before the handler, not under TYPE_CHECKING"
            )

    def _decoder(self, shape: Any) -> msgspec.msgpack.Decoder[Any]:
        try:
            return msgspec.msgpack.Decoder(shape)
        except Exception as error:
            self._refuse(f"its parameters can't be checked: {error}; annotate them otherwise")


def _default(parameter: inspect.Parameter) -> tuple[Any, ...]:
    if parameter.default is parameter.empty:
        return ()
    return (msgspec.field(default_factory=lambda: parameter.default),)


def _struct(fields: list[tuple[Any, ...]], *, by_order: bool) -> type[msgspec.Struct]:
    return msgspec.defstruct(
        "Arguments",
        fields,
        array_like=by_order,
        kw_only=not by_order,
        forbid_unknown_fields=True,
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _short(value: Any) -> str:
    return f"{type(value).__name__} {reprlib.repr(value)}"
