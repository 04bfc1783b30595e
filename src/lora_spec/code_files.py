"""Which files of this package a script can run, told from their source: nothing is imported.

A file needs all that it imports, wherever the import stands, and what it spells out in a string, as registries do. Two
things are left out, since no rule should run again for them: imports for type checkers alone, and what else a *shelf*
holds. A shelf is an ``__init__.py`` that only hands on names of its modules; who takes a name from it, or a module
beside it, needs the module of that name and none of the others, although Python reads them all.
"""

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lora_spec.errors import ConfigError

_ROOT = Path(__file__).parent

Stamped = tuple[str, int, int]
"""A file, when it was changed (ns), and its size: what its source is remembered by."""


@dataclass(frozen=True)
class _Want:
    """A name taken from a module, None for the module itself; ``bound`` is what the taker calls it."""

    module: str
    name: str | None = None
    bound: str = ""


@dataclass(frozen=True)
class _Source:
    """What a file asks for, and whether it is a shelf."""

    path: Path
    wants: tuple[_Want, ...]
    is_shelf: bool


def code_files(script: Path) -> tuple[Path, ...]:
    """Return a script and every file of this package that it can run, however deep, sorted."""
    package, script = _package(_ROOT, tuple(_stamped_files(_ROOT))), script.resolve()
    found, asked, about = {script}, set(), script.stat()
    waiting = list(_read(_ROOT, str(script), about.st_mtime_ns, about.st_size).wants)
    while waiting:
        want = waiting.pop()
        if want not in asked:
            asked.add(want)
            for source in package.answers(want):
                if source.path not in found:
                    found.add(source.path)
                    waiting += source.wants
    return tuple(sorted(found))


class _Package:
    """The files of a package as they were at one time, each read when it is first asked for."""

    def __init__(self, root: Path, files: tuple[Stamped, ...]) -> None:
        self._root = root
        self._files = {_module_of(root, file[0]): file for file in files}
        self._answers: dict[_Want, tuple[_Source, ...]] = {}

    def answers(self, want: _Want) -> tuple[_Source, ...]:
        """Return the files by which a want is met."""
        if want not in self._answers:
            self._answers[want] = tuple(self._answered(want))
        return self._answers[want]

    def _answered(self, want: _Want) -> Iterator[_Source]:
        module, name = want.module, want.name
        if name is not None and f"{module}.{name}" in self._files:
            # A name that the package binds itself hides the module of that name: either may be meant.
            bound = self._source(module).wants if module in self._files else ()
            for inner in bound:
                if inner.bound == name and inner.module != module:
                    yield from self.answers(inner)
            module, name = f"{module}.{name}", None
        while module and module not in self._files:  # a string may name a class in a module; others are none of ours
            module, name = module.rpartition(".")[0], None
        if not module:
            return
        above = (self._source(package) for package in _packages_of(module) if package in self._files)
        yield from (source for source in above if not source.is_shelf)
        source = self._source(module)
        handed_on = [inner for inner in source.wants if inner.bound == name]
        if source.is_shelf and handed_on and name != "*":
            for inner in handed_on:
                yield from self.answers(inner)
        else:
            yield source

    def _source(self, module: str) -> _Source:
        return _read(self._root, *self._files[module])


@cache
def _package(root: Path, files: tuple[Stamped, ...]) -> _Package:
    return _Package(root, files)


def _stamped_files(folder: Path) -> Iterator[Stamped]:
    """Yield the sources below a folder; asked for every rule, so without a path object for each."""
    waiting = [str(folder)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                # Nothing else can be imported; an editor's lock is a link to nowhere, such as .#module.py.
                if entry.name.removesuffix(".py").isidentifier() and entry.name.endswith(".py"):
                    about = entry.stat()
                    yield entry.path, about.st_mtime_ns, about.st_size
                elif entry.name != "__pycache__" and entry.is_dir():
                    waiting.append(entry.path)


def _module_of(root: Path, path: str) -> str:
    parts = Path(path).relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _packages_of(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


@cache
def _read(root: Path, file: str, _mtime_ns: int, _size: int) -> _Source:
    """Read a file once, since a workflow asks for every rule."""
    path = Path(file)
    try:
        tree = ast.parse(path.read_bytes(), filename=file)  # bytes: Python itself knows which encoding a source has
    except (SyntaxError, ValueError) as err:
        raise ConfigError(f"{file}: not Python ({err}); correct it, since rules depend on what it imports") from err
    here = _module_of(root, file).split(".") if path.is_relative_to(root) else []
    # What a relative import starts from, for one dot.
    here = here if path.name == "__init__.py" else here[:-1]
    wants = dict.fromkeys(want for node in _run_time_nodes(tree) for want in _wants_of(node, root.name, here))
    is_shelf = path.name == "__init__.py" and all(map(_only_hands_on, tree.body))
    return _Source(path, tuple(wants), is_shelf)


def _run_time_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but those that only a type checker reads."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        is_for_checkers = isinstance(node, ast.If) and ast.unparse(node.test) in (
            "TYPE_CHECKING",
            "typing.TYPE_CHECKING",
        )
        waiting += node.orelse if is_for_checkers else ast.iter_child_nodes(node)


def _wants_of(node: ast.AST, package: str, here: list[str]) -> Iterator[_Want]:
    if isinstance(node, ast.Import):
        yield from (_Want(alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        module = _absolute(node, here)
        yield from (_Want(module, alias.name, alias.asname or alias.name) for alias in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        # "package.room.module:Name", and "package.room.module." where the name is put behind it.
        spelt = re.match(rf"({package}(?:\.\w+)+)(?=[.:]|$)", node.value)
        yield from () if spelt is None else (_Want(spelt[1]),)


def _absolute(node: ast.ImportFrom, here: list[str]) -> str:
    """Return the module that names are taken from; dots before it count from the package of the file."""
    if not node.level:
        return node.module or ""
    above = here[: len(here) - node.level + 1]
    return ".".join([*above, node.module] if node.module else above)


def _only_hands_on(statement: ast.stmt) -> bool:
    """Say whether a statement of a package does nothing but import, or set a constant, or explain."""
    if isinstance(statement, ast.Assign):
        return not any(isinstance(node, ast.Name | ast.Call) and not _is_target(node) for node in ast.walk(statement))
    return isinstance(statement, ast.Import | ast.ImportFrom) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def _is_target(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
