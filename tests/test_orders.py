"""No result depends on the order of a set: the hashes of text, bytes and objects differ from
process to process, so the same requests would get other answers.

The rule looks at each file by itself. It knows a set by its form, or by a name that the file
declares as one. Sets of numbers are excepted when they are declared: their order is their own.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.syntax_trees import tree_of

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path for name in ("broker", "storage", "config") for path in (ROOT / name).rglob("*.py")
)

ORDERLESS = {"sorted", "any", "all", "min", "max", "sum", "len", "set", "frozenset"}
ORDERED = {"list", "tuple", "iter", "enumerate", "dict.fromkeys"}
SET_TYPE = re.compile(r"(set|frozenset|AbstractSet)\[(?!int\b)")
SET_METHODS = {"union", "intersection", "difference", "symmetric_difference"}


def last_name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def is_called(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in names


def is_set(node: ast.expr, names: set[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name() | ast.Attribute():
            return last_name(node) in names
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(func=ast.Attribute(attr=method)):
            return method in SET_METHODS or method == "all_tasks"
        case ast.BinOp(left=left, op=ast.Sub() | ast.BitAnd() | ast.BitOr(), right=right):
            return any(is_set(side, names) or is_keys(side) for side in (left, right))
    return False


def is_keys(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "keys"


def declared_sets(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(target=target, annotation=kind) if SET_TYPE.match(ast.unparse(kind)):
                names.add(last_name(target))
            case ast.arg(arg=name, annotation=ast.expr() as kind):
                if SET_TYPE.match(ast.unparse(kind)):
                    names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_set(value, set()):
                names.add(name)
    return names


def ordered_uses(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield each expression whose order is used."""
    orderless = {
        id(argument)
        for node in ast.walk(tree)
        if is_called(node, ORDERLESS)
        for argument in node.args
    }
    for node in ast.walk(tree):
        match node:
            case ast.For(iter=used) | ast.AsyncFor(iter=used) | ast.YieldFrom(value=used):
                yield used
            case ast.Starred(value=used):
                yield used
            case ast.ListComp() | ast.GeneratorExp() | ast.DictComp() if id(node) not in orderless:
                yield from (generator.iter for generator in node.generators)
            case ast.Call(func=ast.Attribute(attr="join" | "extend"), args=[used]):
                yield used
            case ast.Call(args=[used, *_]) if is_called(node, ORDERED):
                yield used


def found_in(tree: ast.Module) -> list[str]:
    names = declared_sets(tree)
    return [
        f"{used.lineno}: {ast.unparse(used)}" for used in ordered_uses(tree) if is_set(used, names)
    ]


def test_nothing_depends_on_the_order_of_a_set():
    found = [
        f"{path.relative_to(ROOT)}:{use}" for path in SOURCES for use in found_in(tree_of(path))
    ]
    assert found == [], "sort it, or use a dict"


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("for x in {1, 2}: pass", True),
        ("names = set(given)\nfor x in names: pass", True),
        ("self.open: set[File] = set()\nlist(self.open)", True),
        ("def f(a: frozenset[str]):\n    yield from a", True),
        ("[x for x in a.keys() & b]", True),
        ("', '.join(set(a))", True),
        ("f(*{g(x) for x in a})", True),
        ("self.numbers: set[int] = set()\nlist(self.numbers)", False),
        ("sorted({1, 2})", False),
        ("any(f(x) for x in {1, 2})", False),
        ("{f(x) for x in set(a)}", False),
        ("for x in dict.fromkeys(a): pass", False),
    ],
)
def test_the_rule_knows_a_set_when_it_sees_one(text, is_found):
    assert bool(found_in(ast.parse(text))) is is_found
