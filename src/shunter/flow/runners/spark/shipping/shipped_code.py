"""How a user's code gets to Spark's executors, which have not got the user's files.

Modules go as their text, and are imported there under the same names, as engines import them; what
is in no file, such as a script's own functions, goes by value. An executor that has a module of
that name with another text forgets it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.abc
import importlib.util
import inspect
import io
import linecache
import pickle
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from shunter.errors import FlowError
from shunter.flow.graph.source_line import is_ours
from shunter.flow.runners.spark.session.kinds import is_connect, pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_PACKAGE = "shunter-package.zip"
_PACKAGES = {"site-packages", "dist-packages"}
_SPARKS = {"pyspark", "py4j"}
"""A Spark that was not installed by pip has them in its own folder."""


class ModuleText(msgspec.Struct, frozen=True):
    """A module's name, file and text; a package without a file has neither of the two."""

    name: str
    file: str
    text: str
    is_package: bool


class ShippedCode(msgspec.Struct, frozen=True):
    """Modules, and something pickled that needs them.

    `folders` are where functions may import more from, as far as executors have them.
    """

    modules: tuple[ModuleText, ...]
    pickled: bytes
    folders: tuple[str, ...]

    def opened(self) -> Any:
        """Make the modules importable here, and return the thing."""
        _Shelf.stock(self.modules)
        sys.path += [folder for folder in self.folders if folder not in sys.path]
        return pickle.loads(self.pickled)  # noqa: S301


def shipped(thing: Any, modules: Iterable[str], *, what: str) -> ShippedCode:
    """Pack something for executors, with these modules and all of the user's that they use."""
    buffer = io.BytesIO()
    try:
        _pickler()(buffer).dump(thing)
    except Exception as error:
        raise FlowError(
            f"{what} can't be sent to Spark's executors: {error}; let its functions and objects "
            "hold no open files, locks or connections"
        ) from error
    folders = tuple(str(Path(folder).resolve()) for folder in sys.path)
    return ShippedCode(tuple(map(_text_of, _users_modules(modules))), buffer.getvalue(), folders)


def send_package(session: SparkSession) -> None:
    """Give Shunter itself to executors on other hosts, once for a session."""
    if is_connect(session):
        with tempfile.TemporaryDirectory(prefix="shunter-connect-") as folder:
            session.addArtifacts(str(_named_by_contents(_zipped(Path(folder)))), pyfile=True)
        return
    context = session.sparkContext
    if not any(_PACKAGE in path for path in context.listFiles):
        context.addPyFile(str(_zipped(Path(context._temp_dir))))


def _zipped(where: Path) -> Path:
    """Pack Shunter into a file there."""
    folder = Path(inspect.getfile(FlowError)).parent
    zipped = where / _PACKAGE
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(folder.rglob("*")):
            if path.suffix in {".py", ".sql"}:
                file.write(path, path.relative_to(folder.parent))
    return zipped


def _named_by_contents(file: Path) -> Path:
    """Rename a file, so that a Connect server takes it again, and another one beside it."""
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    return file.rename(file.with_stem(f"{file.stem}-{digest}"))


def pin_package() -> None:
    """Let Shunter be found from any folder, on executors that have it at a relative path."""
    sys.path[:] = [str(Path(each).absolute()) for each in sys.path]
    for name, module in list(sys.modules.items()):
        if is_ours(name) and hasattr(module, "__path__"):
            module.__path__ = [str(Path(each).absolute()) for each in module.__path__]


# ---- packing


def _pickler() -> Any:
    class Pickler(pyspark("pyspark.cloudpickle").CloudPickler):  # type: ignore[misc]
        """Can do what PySpark's own can't: structs by value, and msgspec's coders."""

        def reducer_override(self, thing: Any) -> Any:
            if thing is dataclasses.MISSING:
                return "MISSING"
            if isinstance(thing, _CODERS):
                return _reduced_coder(thing)
            if isinstance(thing, msgspec.StructMeta) and not _is_importable(thing):
                return _reduced_struct(thing)
            if isinstance(thing, type) and _CACHE in vars(thing) and not _is_importable(thing):
                delattr(thing, _CACHE)
            return super().reducer_override(thing)

    return Pickler


_CACHE = "__msgspec_cache__"
"""What msgspec leaves in a dataclass that it has decoded; it can't be pickled, and is made anew."""

_CODERS = (
    msgspec.json.Decoder,
    msgspec.json.Encoder,
    msgspec.msgpack.Decoder,
    msgspec.msgpack.Encoder,
)


def _reduced_coder(coder: Any) -> Any:
    if isinstance(coder, msgspec.json.Decoder | msgspec.msgpack.Decoder):
        options = {"strict": coder.strict, "dec_hook": coder.dec_hook}
        return _made, (type(coder), (coder.type,), options)
    return _made, (type(coder), (), {"enc_hook": coder.enc_hook, "order": coder.order})


def _made(kind: Any, arguments: Sequence[Any], options: dict[str, Any]) -> Any:
    return kind(*arguments, **options)


def _reduced_struct(kind: Any) -> Any:
    bases = [base for base in kind.__mro__[1:] if isinstance(base, msgspec.StructMeta)]
    structs = [base for base in bases if base is not msgspec.Struct]
    inherited = {name for base in structs for name in base.__struct_fields__}
    fields = [_field(each) for each in msgspec.structs.fields(kind) if each.name not in inherited]
    renamed = {each.name: each.encode_name for each in msgspec.structs.fields(kind)}
    config = kind.__struct_config__
    own = {
        name: value
        for name, value in vars(kind).items()
        if callable(value) or isinstance(value, property | classmethod | staticmethod)
        if not name.startswith("__")
    }
    options = {name: getattr(config, name) for name in _STRUCT_OPTIONS}
    options |= {
        "bases": kind.__bases__, "module": kind.__module__, "rename": renamed, "tag": config.tag,
        "tag_field": config.tag_field,
    }  # fmt: skip
    if "__post_init__" in vars(kind):
        options["namespace"] = {"__post_init__": kind.__post_init__}
    return _made, (msgspec.defstruct, (kind.__name__, fields), options), own, None, None, _set_all


def _set_all(kind: Any, own: dict[str, Any]) -> None:
    """Set what may speak of the class itself, and so can come only when that is there."""
    for name, value in own.items():
        setattr(kind, name, value)


_STRUCT_OPTIONS = (
    "frozen", "eq", "order", "array_like", "omit_defaults", "forbid_unknown_fields", "gc",
    "weakref", "dict",
)  # fmt: skip


def _field(info: Any) -> tuple[Any, ...]:
    if info.required:
        return info.name, info.type
    if info.default_factory is not msgspec.NODEFAULT:
        return info.name, info.type, msgspec.field(default_factory=info.default_factory)
    return info.name, info.type, info.default


def _is_importable(kind: type) -> bool:
    if kind.__module__ == "__main__":
        return False
    found: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is kind


# ---- which modules


def _users_modules(names: Iterable[str]) -> list[ModuleType]:
    """Return the user's modules that these use, and the packages that they are in.

    A package without a file, which is only there for what is in it, has as values all that anybody
    imported from it. They go along if somebody has the package itself, as `import a.b` gives it.
    """
    found: dict[str, ModuleType] = {}
    done: set[str] = set()
    used, parents = list(names), list[str]()
    while used or parents:
        is_parent = not used
        name = (used or parents).pop()
        module = sys.modules.get(name)
        if module is None or name in done or (is_parent and name in found):
            continue
        if not (_is_script(module) or _is_users(module)):
            done.add(name)
            continue
        found[name] = module
        parents.append(name.rpartition(".")[0])
        if not is_parent or getattr(module, "__file__", None) is not None:
            done.add(name)
            used += _names_in(module)
    return [module for module in found.values() if not _is_script(module)]


def _names_in(module: ModuleType) -> set[str]:
    values = list(vars(module).values())
    return {
        value.__name__ if isinstance(value, ModuleType) else str(getattr(value, "__module__", ""))
        for value in values
    }


def _is_script(module: ModuleType) -> bool:
    """True for what was started as a program, or typed in a notebook: it goes by value."""
    return module.__name__ == "__main__"


def _is_users(module: ModuleType) -> bool:
    """True for a file that executors have not got; libraries are there, and zips of --py-files."""
    if is_ours(module.__name__) or module.__name__.partition(".")[0] in _SPARKS:
        return False
    file = getattr(module, "__file__", None)
    if file is None:
        return hasattr(module, "__path__")
    return _is_users_file(file)


@cache
def _is_users_file(file: str) -> bool:
    path = Path(file)
    is_library = any(map(path.is_relative_to, _libraries())) or not _PACKAGES.isdisjoint(path.parts)
    is_zipped = any(folder.is_file() for folder in path.parents)
    return path.suffix == ".py" and not is_zipped and not is_library


@cache
def _libraries() -> set[str]:
    paths = sysconfig.get_paths()
    return {paths[each] for each in ("stdlib", "platstdlib", "purelib", "platlib")}


def _text_of(module: ModuleType) -> ModuleText:
    file = getattr(module, "__file__", None) or ""
    try:
        text = Path(file).read_text(encoding="utf-8") if file else ""
    except OSError as error:
        raise FlowError(f"{file} can't be sent to Spark's executors: {error}") from error
    return ModuleText(module.__name__, file, text, hasattr(module, "__path__"))


# ---- importing


class _Shelf(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives out the modules that were sent here."""

    def __init__(self) -> None:
        self._texts: dict[str, ModuleText] = {}

    @classmethod
    def stock(cls, modules: Iterable[ModuleText]) -> None:
        shelf = next((each for each in sys.meta_path if isinstance(each, cls)), None)
        if shelf is None:
            shelf = cls()
            sys.meta_path.insert(0, shelf)
        changed = [each for each in modules if shelf._texts.get(each.name) != each]
        for each in changed:
            shelf._texts[each.name] = each
        if changed:
            for name in shelf._texts:
                sys.modules.pop(name, None)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        text = self._texts.get(fullname)
        if text is None:
            return None
        return importlib.util.spec_from_loader(
            fullname, self, origin=text.file or None, is_package=text.is_package
        )

    def exec_module(self, module: ModuleType) -> None:
        text = self._texts[module.__name__]
        if not text.file:
            return
        module.__file__ = text.file
        lines = text.text.splitlines(keepends=True)
        linecache.cache[text.file] = (len(text.text), None, lines, text.file)
        exec(compile(text.text, text.file, "exec"), vars(module))  # noqa: S102
