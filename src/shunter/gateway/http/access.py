"""Who may call what over HTTP: one table from operations to the actions that open them.

Each request shows its key anew, so a key that is revoked loses its rights on open connections too.
Whoever shows none that counts hears the same answer, whatever was wrong with it.
Which role may do what is decided in `model/key.py`. Spec: docs/spec/http.md.
"""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request

from shunter.gateway.key_list import KeyList
from shunter.model.key import Action, Key, KeyRing
from shunter.net.web.bearer import bearer_token, unauthorized
from shunter.net.web.refusals import HttpRefusal

Opening = tuple[Action, ...] | None
"""Any one of these actions opens an operation; None: anybody may call it."""

ACCESS: dict[str, Opening] = {
    "submit": (Action.SUBMIT,),
    "browse": (Action.SEE_JOBS,),
    "show": (Action.SEE_JOBS,),
    "why": (Action.SEE_JOBS,),
    "cancel": (Action.CANCEL,),
    "rerun": (Action.SUBMIT,),
    "signal": (Action.SUBMIT,),
    "stream": (Action.SEE_JOBS,),
    "submit_workflow": (Action.SUBMIT,),
    "browse_runs": (Action.SEE_JOBS,),
    "show_run": (Action.SEE_JOBS,),
    "cancel_run": (Action.CANCEL,),
    "rerun_run": (Action.SUBMIT,),
    "follow_log": (Action.SEE_JOBS,),
    "report": (Action.WORK,),
    "tell_log": (Action.WORK,),
    "register": (Action.WORK,),
    "list_workers": (Action.SEE_SYSTEM,),
    "show_worker": (Action.SEE_SYSTEM,),
    "resign": (Action.OPERATE, Action.WORK),
    "list_pauses": (Action.SEE_SYSTEM,),
    "pause": (Action.OPERATE,),
    "resume": (Action.OPERATE,),
    "list_limits": (Action.SEE_SYSTEM,),
    "show_limits": (Action.SEE_SYSTEM,),
    "put_limits": (Action.OPERATE,),
    "take_back_limits": (Action.OPERATE,),
    "list_schedules": (Action.SEE_JOBS,),
    "show_schedule": (Action.SEE_JOBS,),
    "put_schedule": (Action.SUBMIT,),
    "remove_schedule": (Action.SUBMIT,),
    "pause_schedule": (Action.SUBMIT,),
    "resume_schedule": (Action.SUBMIT,),
    "trigger_schedule": (Action.SUBMIT,),
    "backfill_schedule": (Action.SUBMIT,),
    "audit": (Action.OPERATE,),
    "metrics": (Action.SEE_SYSTEM,),
    "openapi": tuple(Action),
    "healthz": None,
    "readyz": None,
}

KEY = "shunter.key"
"""Where in a request's ASGI scope the key stands that it was let in with."""


class AccessControl:
    """Lets requests through whose key may do what they ask for; all of them, without keys."""

    def __init__(self, keys: KeyList) -> None:
        self._keys = keys

    @property
    def ring(self) -> KeyRing:
        """The keys that count now."""
        return self._keys.ring

    def admit(self, operation_id: str, request: Request) -> None:
        """Raise a HttpRefusal unless the request may go on; remember its key."""
        opening = ACCESS[operation_id]
        if opening is None or not self._keys.is_on:
            return
        token = bearer_token(request)
        key = None if token is None else self._keys.ring.with_token(token)
        if key is None:
            raise unauthorized("a key's token, from a file that `shunter key new` wrote")
        check_key(key, opening)
        request.scope[KEY] = key


def check_key(key: Key, opening: tuple[Action, ...]) -> None:
    """Raise a HttpRefusal unless the key's role may do one of these actions."""
    if not any(key.permits(action) for action in opening):
        raise forbidden(key, opening[0])


def forbidden(key: Key, action: Action) -> HttpRefusal:
    """Say that a key may not do this, or not to what is another's."""
    message = key.refusal(action) or f"key {key.name!r} may not {action} here"
    return HttpRefusal(HTTPStatus.FORBIDDEN, message)


def key_of(request: Request) -> Key | None:
    """Return the key that a request was let in with; None where nobody is asked for one."""
    key = request.scope.get(KEY)
    assert key is None or isinstance(key, Key)
    return key
