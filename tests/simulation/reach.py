"""Which lines of the product the histories never reach, and why; it writes docs/simulation.md.

    python -m tests.simulation.reach --seeds N [--first 1] [--jobs 2] [--dry]

Modules of `broker/` and `storage/` are compiled with a probe before each statement of their
functions: a store into an array of bytes, which costs next to nothing, in threads as well. So a
line counts if a statement begins on it. Statements of modules and classes run at the import, and
are left out; so are bodies that only say `...` or `pass`.

`tests.simulation.reach_reasons` tells why statements are not reached: of a function, by how they
begin, or in handlers of which exceptions. A row of the table without a reason is work that the
workload has not done yet. A reason that no statement needs any more, since all are reached or gone,
fails the command.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.machinery
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from tests.simulation.reach_reasons import HANDLERS, REASONS, TEXTS

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs/simulation.md"
PACKAGES: Final = ("broker", "storage")
BEGIN: Final = "<!-- reach: begin (python -m tests.simulation.reach) -->"
END: Final = "<!-- reach: end -->"
PROBES: Final = "__reach__"
CHUNK: Final = 20  # seeds of one job
TEXT_MAX: Final = 70
NAMED_MAX: Final = 4


class Place(NamedTuple):
    """A statement: where it is, and how it begins."""

    path: str
    function: str
    line: int
    text: str
    handler: str = ""  # the exceptions of the innermost `except` around it


# -- Probes -----------------------------------------------------------------------------------


class _Prober(ast.NodeTransformer):
    """Puts a probe before each statement of each function."""

    def __init__(self, path: str, source: str) -> None:
        self.places: list[Place] = []
        self._path = path
        self._lines = source.splitlines()
        self._names: list[str] = []
        self._handlers: list[str] = []
        self._is_inside = False

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._named(node, is_inside=False)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._named(node, is_inside=True)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._named(node, is_inside=True)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        self._handlers.append(ast.unparse(node.type) if node.type else "BaseException")
        result = self.generic_visit(node)
        self._handlers.pop()
        return result

    def _named(self, node: Any, *, is_inside: bool) -> ast.AST:
        before, self._is_inside = self._is_inside, is_inside
        self._names.append(node.name)
        handlers, self._handlers = self._handlers, []
        result = self.generic_visit(node)
        self._handlers = handlers
        self._names.pop()
        self._is_inside = before
        return result

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Lambda):
            return node
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list) and statements and self._is_inside:
                setattr(node, field, list(self._probed(statements)))
        return super().generic_visit(node)

    def _probed(self, statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        for statement in statements:
            if not _is_empty(statement):
                text = self._lines[statement.lineno - 1].strip()
                number = len(self.places)
                name = ".".join(self._names)
                handler = self._handlers[-1] if self._handlers else ""
                self.places.append(Place(self._path, name, statement.lineno, text, handler))
                probe = ast.parse(f"{PROBES}[{number}] = 1").body[0]
                for part in ast.walk(probe):
                    ast.copy_location(part, statement)
                yield probe
            yield statement


def _is_empty(statement: ast.stmt) -> bool:
    """Whether it does nothing: docstrings, `...`, `pass`, and declarations of names."""
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_constant or isinstance(statement, ast.Pass | ast.Global | ast.Nonlocal)


def probed(source: str, path: str) -> tuple[ast.Module, list[Place]]:
    """Return a module with its probes, and the statement that each stands for."""
    prober = _Prober(path, source)
    tree = prober.visit(ast.parse(source))
    return tree, prober.places


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module with probes, past the cache of compiled ones."""

    def get_code(self, fullname: str) -> Any:
        source = Path(self.path).read_text(encoding="utf-8")
        tree, places = probed(source, _name_of(self.path))
        _hits[_name_of(self.path)] = bytearray(len(places))
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        code = self.get_code(module.__name__)
        module.__dict__[PROBES] = _hits[_name_of(self.path)]
        exec(code, module.__dict__)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that get probes."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname.partition(".")[0] not in PACKAGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


_hits: dict[str, bytearray] = {}  # by path, of the modules loaded in this process


def _name_of(path: str | Path) -> str:
    return Path(path).resolve().relative_to(ROOT).as_posix()


# -- Histories --------------------------------------------------------------------------------


def _play(seeds: Sequence[str]) -> dict[str, bytes]:
    """Tell histories, in a process of their own; return which probes were reached."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    from tests.simulation.history import tell
    from tests.simulation.plan import write_plan

    for seed in seeds:
        for failure in tell(write_plan(seed)).failures:
            print(f"seed {seed}: {failure}", flush=True)
    return {path: bytes(hits) for path, hits in _hits.items()}


def reached(first: int, seeds: int, jobs: int) -> dict[str, set[int]]:
    """Return the numbers of the probes that these seeds reach, by path."""
    names = [str(number) for number in range(first, first + seeds)]
    chunks = [names[at : at + CHUNK] for at in range(0, len(names), CHUNK)]
    found: dict[str, set[int]] = {}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for hits in pool.map(_play, chunks):
            for path, marks in hits.items():
                numbers = (number for number, mark in enumerate(marks) if mark)
                found.setdefault(path, set()).update(numbers)
    return found


# -- The table --------------------------------------------------------------------------------


def all_places() -> dict[str, list[Place]]:
    """Return every statement of the product's functions, by path."""
    places = {}
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            path = _name_of(file)
            places[path] = probed(file.read_text(encoding="utf-8"), path)[1]
    return places


Row = tuple[str, ...]


def row_of(place: Place) -> Row | None:
    """Return the row that tells why a statement is not reached; its last part is the reason."""
    for row in REASONS:
        if place.path.startswith(row[0]) and place.function.startswith(row[1]):
            return row
    for text_row in TEXTS:
        if place.text.startswith(text_row[0]):
            return text_row
    return next((one for one in HANDLERS if place.handler == one[0]), None)


def unneeded(missed: Iterable[Place]) -> list[Row]:
    """Return the rows of reasons that none of these statements needs."""
    needed = {row_of(place) for place in missed}
    return [row for row in (*REASONS, *TEXTS, *HANDLERS) if row not in needed]


def rows(places: Iterable[Place], missed: Iterable[Place]) -> Iterator[str]:
    """Yield rows of the table: functions with a reason together, the others one by one.

    A function of which some statements have a reason, and others have none, is in both.
    """
    sizes = Counter((place.path, place.function) for place in places)
    by_function: dict[tuple[str, str], list[Place]] = {}
    explained: dict[tuple[str, str], dict[str, None]] = {}
    for place in missed:
        row = row_of(place)
        if row is None:
            by_function.setdefault((place.path, place.function), []).append(place)
        else:
            explained.setdefault((place.path, row[-1]), {})[place.function] = None
    for (path, function), own in by_function.items():
        if len(own) == sizes[path, function]:
            yield f"| {path} | {function} | all | | |"
            continue
        text = own[0].text.replace("|", "\\|").replace("`", "'")[:TEXT_MAX]
        yield f"| {path} | {function} | {len(own)} of {sizes[path, function]} | `{text}` | |"
    for (path, reason), functions in explained.items():
        names = ", ".join(functions) if len(functions) <= NAMED_MAX else f"{len(functions)} of them"
        yield f"| {path} | {names} | | | {reason} |"


def missed_of(everything: dict[str, list[Place]], found: dict[str, set[int]]) -> list[Place]:
    """Return the statements that no history has reached."""
    return [
        place
        for path, own in everything.items()
        for number, place in enumerate(own)
        if number not in found.get(path, ())
    ]


def table(places: Sequence[Place], missed: Sequence[Place], seeds: int) -> str:
    """Return the table, and what it adds up to."""
    unexplained = sum(row_of(place) is None for place in missed)
    sums = (
        f"{seeds} seeds reach {len(places) - len(missed)} of {len(places)} statements of the "
        f"functions of `broker/` and `storage/`. Of the other {len(missed)}, {unexplained} have "
        "no reason yet."
    )
    lines = [
        sums,
        "",
        "| file | functions | statements | the first of them | why |",
        "|---|---|---|---|---|",
        *rows(places, missed),
    ]
    return "\n".join(lines)


def with_table(page: str, text: str) -> str:
    """Return the page with this table between its marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE} has no lines {BEGIN} and {END}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Tell the histories and write, or print, the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.reach")
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--dry", action="store_true", help="print it, and leave the page as it is")
    options = parser.parse_args(arguments)
    everything = all_places()
    missed = missed_of(everything, reached(options.first, options.seeds, options.jobs))
    places = [place for own in everything.values() for place in own]
    text = table(places, missed, options.seeds)
    if options.dry:
        print(text)
    else:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")
    for row in unneeded(missed):
        print(f"a reason that nothing needs: {row}")
    return 1 if unneeded(missed) else 0


if __name__ == "__main__":
    sys.exit(main())
