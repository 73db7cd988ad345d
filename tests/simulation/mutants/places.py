"""Which histories run the code that a bug changes: the others are the same with it and without it.

Modules that bugs change are loaded with a probe before each statement of their functions
(`tests.simulation.reach`). A bug is reached when a statement that it changes, or the one before
which it puts its own, begins. What it changes outside of functions is reached by every history.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any, Final, NamedTuple

from tests.simulation.mutants.mutant import Mutant, module_of, text_of
from tests.simulation.reach import PROBES, Place, probed

_BLOCKS: Final = ("body", "orelse", "finalbody", "handlers", "cases")
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


class _Everywhere(Exception):
    """Code outside of functions has changed."""


class Reached(NamedTuple):
    """The probes of one bug: by file, the numbers of the statements. None: every history."""

    probes: Mapping[str, Sequence[int]] | None


@cache
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


def changed_lines(before: str, after: str) -> set[int] | None:
    """Return the lines of the statements of `before` that `after` changes.

    A history in which none of them begins is the same with both texts. None if code outside of
    functions has changed.
    """
    try:
        return _changed(_tree(before).body, ast.parse(after).body, function=None)
    except _Everywhere:
        return None


def _changed(
    before: Sequence[ast.stmt], after: Sequence[ast.stmt], function: ast.stmt | None
) -> set[int]:
    """Compare two blocks. `function`: the one that they are in."""
    if function is None:
        before, after = _without_imports(before), _without_imports(after)
    if len(before) != len(after):
        same = 0
        while same < min(len(before), len(after)) and _same(before[same], after[same]):
            same += 1
        return _at(before[min(same, len(before) - 1)], function)
    lines: set[int] = set()
    for old, new in zip(before, after, strict=True):
        if not _same(old, new):
            lines |= _changed_in(old, new, function)
    return lines


def _changed_in(old: ast.AST, new: ast.AST, function: ast.stmt | None) -> set[int]:
    """Compare two statements, or two handlers, that differ."""
    if type(old) is not type(new) or not _same(_head(old), _head(new)):
        return _at(old, function)
    if isinstance(old, _FUNCTIONS):
        function = old
    elif isinstance(old, ast.ClassDef):
        function = None
    lines: set[int] = set()
    for name in _BLOCKS:
        one, other = getattr(old, name, []), getattr(new, name, [])
        if [ast.dump(part) for part in one] == [ast.dump(part) for part in other]:
            continue
        if not one or not isinstance(one[0], ast.stmt):  # a block begins to be; handlers, cases
            lines |= _at(old, function)
        else:
            lines |= _changed(one, other, function)
    return lines


def _head(node: ast.AST) -> ast.AST:
    """Return a statement without the blocks in it."""
    fields = {
        name: [] if name in _BLOCKS and isinstance(value, list) else value
        for name, value in ast.iter_fields(node)
    }
    return type(node)(**fields)


def _same(one: ast.AST, other: ast.AST) -> bool:
    return ast.dump(one) == ast.dump(other)


def _at(node: ast.AST, function: ast.stmt | None) -> set[int]:
    if function is None:
        raise _Everywhere
    assert isinstance(node, ast.stmt)
    return {node.lineno}


def _without_imports(block: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Leave out imports: what they bring is used where something else has changed."""
    return [one for one in block if not isinstance(one, ast.Import | ast.ImportFrom)]


# -- Probes ----------------------------------------------------------------------------------------


@cache
def _places(file: str) -> list[Place]:
    return probed(text_of(file), file)[1]


def reached_by(mutant: Mutant) -> Reached:
    """Return the probes that tell whether a history runs what the bug changes."""
    probes: dict[str, Sequence[int]] = {}
    for file in mutant.files:
        lines = changed_lines(text_of(file), mutant.source(file))
        places = _places(file)
        numbers = [number for number, place in enumerate(places) if place.line in (lines or ())]
        if lines is None or lines - {places[number].line for number in numbers}:
            return Reached(None)  # a docstring or `pass` has no probe
        probes[file] = numbers
    return Reached(probes)


class _Loader(SourceFileLoader):
    """Loads one module with probes."""

    def __init__(self, fullname: str, path: str, file: str, hits: dict[str, bytearray]) -> None:
        super().__init__(fullname, path)
        self._file = file
        self._hits = hits

    def exec_module(self, module: ModuleType) -> None:
        """Run the module; its probes are in `hits`."""
        tree, places = probed(text_of(self._file), self._file)
        self._hits[self._file] = module.__dict__[PROBES] = bytearray(len(places))
        exec(compile(tree, self.path, "exec", dont_inherit=True), module.__dict__)


class Probes(MetaPathFinder):
    """Loads the modules that bugs change with probes, and tells which bugs a history reached."""

    def __init__(self, mutants: Iterable[Mutant]) -> None:
        self._bugs = {mutant.name: reached_by(mutant) for mutant in mutants}
        files = {file for bug in self._bugs.values() for file in bug.probes or ()}
        self._files = {module_of(file): file for file in files}
        self._hits: dict[str, bytearray] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a probed module is; None for all others."""
        file = self._files.get(fullname)
        if file is None:
            return None
        spec: Any = PathFinder.find_spec(fullname, path, target)
        spec.loader = _Loader(fullname, spec.origin, file, self._hits)
        return spec

    def plant(self) -> None:
        """Load the product with probes from now on."""
        sys.meta_path.insert(0, self)

    def clear(self) -> None:
        """Forget what was reached."""
        for hits in self._hits.values():
            hits[:] = bytes(len(hits))

    def reached(self) -> list[str]:
        """Return the bugs that were reached since `clear`."""
        return [name for name, bug in self._bugs.items() if self._is_reached(bug)]

    def _is_reached(self, bug: Reached) -> bool:
        if bug.probes is None:
            return True
        return any(
            file in self._hits and any(self._hits[file][number] for number in numbers)
            for file, numbers in bug.probes.items()
        )
