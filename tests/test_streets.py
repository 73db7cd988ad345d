"""How the house is laid out: streets, what may stand in one, and what a name says.

The packages are cut into streets, directories with a door (`__init__.py`) that says what lives
there. These rules keep them so: no import goes in a circle, files and classes stay small enough to
be read in one go, a constructor that is not a value takes no more than it can explain, and a name
says one thing in a whole package. There are no exceptions.
"""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

from tests.support import syntax_trees

ROOT = Path(__file__).parents[1]
# Where each package stands.
PACKAGES = {
    "broker": ROOT,
    "storage": ROOT,
    "protocol": ROOT,
    "config": ROOT,
    "client": ROOT,
    "pyspark_barnabas": ROOT / "pipelines",
    "pytest_barnabas": ROOT / "testing",
}
# protocol is one module a message, and config one table: they are long by what they list.
SIZED = ("broker", "storage", "client", "pyspark_barnabas", "pytest_barnabas")

FILE_MAX = 400
CLASS_MAX = 250
PARAMETERS_MAX = 8
# Names that once meant several things. Each is taken at most once in the whole house.
ONCE = {
    "ProducerIds", "Outbox", "Outcome", "Source", "Member", "Leadership", "Progress",
    "leader_epochs", "snapshots", "checkpoints", "cleaning", "compaction", "segments", "outbox",
    "serve", "follow",
}  # fmt: skip

# Twins on purpose: a handler is named after its message, a command after what it drives, and the
# two dialects have the same parts.
TWINS = (
    "broker.handlers.",
    "client.commands.",
    "protocol.messages.",
    "protocol.kafka.",
    "protocol.msgpack.",
)


@cache
def modules():
    """Every module by its dotted name, with its path."""
    found = {}
    for package, base in PACKAGES.items():
        for path in sorted((base / package).rglob("*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def tree_of(name):
    return syntax_trees.tree_of(modules()[name])


def of(packages):
    return [name for name in modules() if name.partition(".")[0] in packages]


def imports_of(name):
    """The modules of the house that one imports, for a type checker only too."""
    found = set()
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in modules() else node.module)
    return {each for each in found if each in modules()} - {name}


def circles():
    """The sets of modules of which each reaches each other one (Kosaraju)."""
    arrows = {name: imports_of(name) for name in modules()}
    back = defaultdict(set)
    for name, others in arrows.items():
        for other in others:
            back[other].add(name)

    def reached(start, ways, seen):
        """What is reached from `start` and was not seen before, the farthest first."""
        seen.add(start)
        found = []
        for other in sorted(ways[start]):
            if other not in seen:
                found += reached(other, ways, seen)
        return [*found, start]

    seen: set[str] = set()
    order = [each for name in arrows if name not in seen for each in reached(name, arrows, seen)]
    seen.clear()
    groups = [reached(name, back, seen) for name in reversed(order) if name not in seen]
    return sorted(sorted(group) for group in groups if len(group) > 1)


def classes_of(name):
    return [node for node in ast.walk(tree_of(name)) if isinstance(node, ast.ClassDef)]


def beyond(sizes, limit):
    return {name: size for name, size in sizes.items() if size > limit}


def test_no_import_goes_in_a_circle():
    assert circles() == []


def test_no_file_is_longer_than_400_lines():
    sizes = {
        name: len(modules()[name].read_text(encoding="utf-8").splitlines()) for name in of(SIZED)
    }
    assert beyond(sizes, FILE_MAX) == {}


def test_no_class_is_longer_than_250_lines():
    sizes = {
        f"{name}:{node.name}": node.end_lineno - node.lineno + 1
        for name in of(SIZED)
        for node in classes_of(name)
    }
    assert beyond(sizes, CLASS_MAX) == {}


def test_no_constructor_takes_more_than_eight_parameters():
    """Those of dataclasses and named tuples are values: their fields are what they are."""
    sizes = {
        f"{name}:{node.name}": len(method.args.args) - 1 + len(method.args.kwonlyargs)
        for name in of(SIZED)
        for node in classes_of(name)
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
    }
    assert beyond(sizes, PARAMETERS_MAX) == {}


def names(*, with_twins):
    """The names of modules and of classes at the top of one: (package, name) -> where it is."""
    taken = defaultdict(list)
    for name, path in modules().items():
        if name.startswith("protocol.messages.") or (name.startswith(TWINS) and not with_twins):
            continue
        package = name.partition(".")[0]
        if path.name != "__init__.py":
            taken[package, path.stem].append(name)
        for node in tree_of(name).body:
            if isinstance(node, ast.ClassDef):
                taken[package, node.name].append(name)
    return taken


def test_a_name_is_taken_once_in_a_package():
    assert {key: places for key, places in names(with_twins=False).items() if len(places) > 1} == {}


def test_names_that_meant_several_things_mean_one():
    places = defaultdict(list)
    for (_, name), found in names(with_twins=True).items():
        places[name] += found
    assert {name: places[name] for name in ONCE if len(places[name]) > 1} == {}


def test_each_street_has_a_door_of_three_lines():
    """Its `__init__.py` says in three lines what lives there, and imports nothing."""
    exempt = {"broker.handlers", "pyspark_barnabas", "pyspark_barnabas.jobs", "pytest_barnabas"}
    doors = [name for name, path in modules().items() if path.name == "__init__.py"]
    for name in {door for door in doors if not door.startswith("protocol")} - exempt:
        text = modules()[name].read_text(encoding="utf-8")
        assert 3 <= len(text.splitlines()) <= 6, f"{name}: a door is read at a glance"
        assert len(tree_of(name).body) == 1, f"{name}: a door holds nothing but its words"
