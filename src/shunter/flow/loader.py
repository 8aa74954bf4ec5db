"""How a flow is found: by file or by module, with or without its name.

What the user's code raises while it is imported becomes a FlowError that names the user's line.
The loader also notes what the flow was made of, for its fingerprint.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import sysconfig
import traceback
from collections.abc import Collection, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from shunter.errors import FlowError
from shunter.flow.graph.event_types import users_modules
from shunter.flow.graph.flow_graph import FlowGraph


def load(spec: str) -> FlowGraph:
    """Import the flow that `path/to/file.py:name` or `package.module:name` names.

    Without the name it is the only Flow in there. The current folder is put on `sys.path` for a
    module, the file's folder for a file.
    """
    place, _, name = spec.rpartition(":") if ":" in spec else (spec, "", "")
    if not place or spec.endswith(":"):
        raise FlowError(f"{spec!r} names no flow; write path/to/file.py:name or module:name")
    is_file = place.endswith(".py") or "/" in place
    module = _import_file(Path(place)) if is_file else _import_module(place)
    flow = _flow_in(module, place, name)
    if module.__file__ is not None:
        flow.file = str(Path(module.__file__).resolve())
    flow.code = _digests(flow, module)
    flow.origin = (module.__name__, name)
    return flow


def load_within(spec: str, folders: Sequence[Path]) -> FlowGraph:
    """Import a flow, but only one that lies in one of these folders: its code runs at once."""
    place = spec.rpartition(":")[0] if ":" in spec else spec
    if place.endswith(".py") or "/" in place:
        file = Path(place)
    else:
        found = importlib.util.find_spec(place.partition(".")[0])
        file = Path(found.origin if found and found.origin else place)
    resolved = file.resolve()
    if not any(resolved.is_relative_to(folder.resolve()) for folder in folders):
        allowed = ", ".join(map(str, folders))
        raise FlowError(
            f"{place} is in no folder that this engine takes flows from ({allowed}); put it there, "
            "or start the engine with --flows and its folder"
        )
    return load(spec)


def load_sent(module: str, name: str) -> FlowGraph:
    """Return a flow of a module that was sent here, as `origin` says of it where it was loaded."""
    try:
        return _flow_in(importlib.import_module(module), module, name)
    except (Exception, SystemExit) as error:
        raise _import_failed(module, error) from error


def absolute(spec: str) -> str:
    """Return how to load the same flow from any folder; a module is named as it was."""
    place, colon, name = spec.rpartition(":") if ":" in spec else (spec, "", "")
    is_file = place.endswith(".py") or "/" in place
    return f"{Path(place).resolve()}{colon}{name}" if is_file else spec


def forget_modules(but: Collection[str]) -> None:
    """Drop the user's modules, but those named, so that files that changed are loaded anew."""
    for name in sys.modules.keys() - set(but):
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and _is_users(file):
            del sys.modules[name]


def _import_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise FlowError(f"there is no file {path}; check the path of the flow")
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    _put_on_path(path.parent)
    name = path.stem if known is None else f"shunter_flow_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FlowError(f"{path} is not a Python file; name one that ends in .py")
    spec.loader = _TextLoader(name, str(path))
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _import_failed(str(path), error) from error
    return module


class _TextLoader(SourceFileLoader):
    """Compiles a file as it is now.

    Python would take compiled code for that of a file which was changed within the same second
    and is as long as before.
    """

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _import_module(name: str) -> ModuleType:
    _put_on_path(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise FlowError(
                f"there is no module {name!r} in {Path.cwd()} or on sys.path; "
                "check the name, or name a file: path/to/file.py"
            ) from None
        raise _import_failed(name, error) from error
    except (Exception, SystemExit) as error:
        raise _import_failed(name, error) from error


def _put_on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _import_failed(place: str, error: BaseException) -> FlowError:
    if isinstance(error, FlowError):
        return error
    return FlowError(
        f"importing {place} raised {type(error).__name__}: {error}; correct it there",
        place=_users_line(error),
    )


def _users_line(error: BaseException) -> str:
    """Say where in the user's code the error comes from; "" where that can't be told."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}:{error.lineno}"
    lines = [
        f"{frame.f_code.co_filename}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _is_users(frame.f_code.co_filename)
    ]
    return lines[-1] if lines else ""


def _is_users(file: str) -> bool:
    paths = sysconfig.get_paths()
    libraries = [
        paths["stdlib"],
        paths["purelib"],
        paths["platlib"],
        str(Path(__file__).parents[1]),
    ]
    return Path(file).is_file() and not any(Path(file).is_relative_to(path) for path in libraries)


def _flow_in(module: ModuleType, place: str, name: str) -> FlowGraph:
    flows = {key: value for key, value in vars(module).items() if isinstance(value, FlowGraph)}
    there = f"flows in there: {', '.join(flows)}" if flows else "there is no Flow in there"
    if name:
        found = getattr(module, name, None)
        if isinstance(found, FlowGraph):
            return found
        fact = "is missing" if found is None else f"is a {type(found).__name__}, not a Flow"
        raise FlowError(f"{place}: {name!r} {fact}; {there}")
    if len({id(flow) for flow in flows.values()}) == 1:
        return next(iter(flows.values()))
    remedy = f"say which: {place}:{next(iter(flows))}" if flows else 'write flow = Flow("name")'
    raise FlowError(f"{place}: {there}; {remedy}")


def _digests(flow: FlowGraph, module: ModuleType) -> tuple[tuple[str, str], ...]:
    """Digest the user's files that the flow is made of; folders may differ from host to host."""
    files = {getattr(sys.modules[name], "__file__", None) for name in users_modules(flow)}
    used = {file for file in files if file is not None and _is_users(file)}
    if module.__file__ is not None:
        used.add(module.__file__)
    paths = {Path(file).resolve() for file in used}
    return tuple(
        sorted((path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in paths)
    )
