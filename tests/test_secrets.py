"""Secrets are compared by `hmac.compare_digest` alone: others end at the first difference.

A comparison counts if a name in it says that it is a secret, unless it is with a constant.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("broker", "client", "config", "protocol", "storage")
# Of names, whole words.
SECRET = re.compile(
    r"(^|_)(password|passwords|secret|secrets|proof|signature|digest|digests|mac|hmac"
    r"|stored_key|server_key|client_key|salted|session_token|cookie)$"
)
COMPARED = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)


def names_in(node: ast.AST) -> Iterator[str]:
    """The names in an expression, but not those inside its calls: a size is no secret."""
    if isinstance(node, ast.Call):
        return
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    for child in ast.iter_child_nodes(node):
        yield from names_in(child)


def is_constant(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) or (
        isinstance(node, ast.Tuple) and all(map(is_constant, node.elts))
    )


def comparisons_of_secrets(text: str) -> list[int]:
    """The lines of a module on which two things are compared of which one is a secret."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        if any(map(is_constant, sides)):  # whether there is one at all
            continue
        if any(isinstance(one, COMPARED) for one in node.ops) and any(
            SECRET.search(name) for side in sides for name in names_in(side)
        ):
            found.append(node.lineno)
    return found


def test_no_secret_is_compared_but_by_compare_digest() -> None:
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            found += [f"{place}:{line}" for line in comparisons_of_secrets(path.read_text())]
    assert found == []


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("password == given", True),
        ("given != self._password", True),
        ("key == credential.stored_key", True),
        ("digest in known", True),
        ("password is None", False),
        ("password == ''", False),
        ("len(proof) != len(signature)", False),
        ("hmac.compare_digest(password, given)", False),
        ("passworded == 5", False),
    ],
)
def test_the_rule_finds_what_it_should(text: str, is_found: bool) -> None:
    assert bool(comparisons_of_secrets(text)) == is_found
