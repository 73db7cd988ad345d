"""How the house is laid out: streets, what may stand in one, and what a name says.

The packages are cut into streets, directories with a door (`__init__.py`) that says what lives
there. These rules keep them so: no import goes in a circle, files and classes stay small enough to
be read in one go, a constructor that is not a value takes no more than it can explain, and a name
says one thing in a whole package. The lists of exceptions only shrink: an exception that is no
longer needed fails its rule.
"""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Where each package stands.
PACKAGES = {
    "broker": ROOT,
    "storage": ROOT,
    "protocol": ROOT,
    "config": ROOT,
    "client": ROOT,
    "pyspark_barnabas": ROOT / "pipelines",
}
# protocol is one module a message, and config one table: they are long by what they list.
SIZED = ("broker", "storage", "client", "pyspark_barnabas")

FILE_MAX = 400
CLASS_MAX = 250
PARAMETERS_MAX = 8
# What is beyond its limit, with what it has. Do not add to them.
LONG_FILES: dict[str, int] = {
    "broker.groups.classic.classic_group": 407,
    "broker.groups.consumer.consumer_group": 429,
    "broker.groups.coordinator": 460,
    "broker.handlers.fetch": 412,
    "broker.metadata.controller": 441,
    "broker.server": 460,
    "broker.topics": 464,
    "storage.files.filesystem": 449,
    "storage.log": 497,
    "storage.log_manager": 474,
    "storage.opening.log_loading": 475,
    "storage.opening.recovery": 499,
    "storage.segments.segment": 433,
    "client.files.verify": 412,
    "client.msgpack.group_consumer": 487,
    "pyspark_barnabas.columns": 459,
    "pyspark_barnabas.options": 477,
    "pyspark_barnabas.source.segments": 466,
    "pyspark_barnabas.wire.protocol": 463,
}
LONG_CLASSES: dict[str, int] = {
    "broker.groups.classic.classic_group:ClassicGroup": 357,
    "broker.groups.consumer.consumer_group:ConsumerGroup": 340,
    "broker.groups.coordinator:Coordinator": 398,
    "broker.metadata.controller:Controller": 319,
    "broker.network.connection:Connection": 275,
    "broker.server:Broker": 331,
    "broker.topics:Topics": 378,
    "storage.log:Log": 432,
    "storage.log_manager:LogManager": 400,
    "storage.opening.recovery:_Recovery": 319,
    "storage.segments.segment:Segment": 395,
    "storage.segments.segment_reader:SegmentReader": 261,
    "client.files.verify:Verification": 300,
    "client.files.verify_partition:PartitionCheck": 281,
    "client.files.verify_segment:SegmentCheck": 275,
    "client.msgpack.group_consumer:GroupConsumer": 403,
    "client.msgpack.producer:Producer": 295,
    "pyspark_barnabas.wire.cluster:Cluster": 265,
}
LONG_CONSTRUCTORS: dict[str, int] = {
    "broker.network.processor:Processor": 10,
    "broker.topics:Topics": 9,
    "storage.checkpointing:Checkpoint": 9,
    "storage.log:Log": 14,
    "client.msgpack.group_consumer:GroupConsumer": 9,
}
# Modules that import each other. Do not add to them.
CIRCLES: list[list[str]] = [
    [
        "broker.groups.classic.classic_group",
        "broker.groups.classic.joining",
        "broker.groups.classic.rebalance",
        "broker.groups.classic.syncing",
    ],
    [
        "broker.groups.consumer.classic_side",
        "broker.groups.consumer.consumer_group",
        "broker.groups.consumer.migration",
    ],
    ["broker.network.connection", "broker.network.processor"],
    [
        "broker.partitions.append_queue",
        "broker.partitions.flush_round",
        "broker.partitions.group_commit",
        "broker.partitions.partition",
        "broker.partitions.purgatory",
    ],
    ["client.commands.consume", "client.commands.consume_group"],
    [
        "storage.checkpointing",
        "storage.failing",
        "storage.log",
        "storage.rolling",
        "storage.trimming",
    ],
]
# Names that are taken twice in a package. Do not add to them.
TAKEN_TWICE: set[str] = {
    "broker: Leadership",
    "broker: Member",
    "broker: ProducerIds",
    "protocol: TopicPartition",
    "pyspark_barnabas: Done",
    "pyspark_barnabas: Piece",
    "pyspark_barnabas: Plan",
    "pyspark_barnabas: Span",
}

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


@cache
def tree_of(name):
    return ast.parse(modules()[name].read_text(encoding="utf-8"))


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


def beyond(sizes, limit, excepted):
    """What is larger than it may be."""
    large = {name: size for name, size in sizes.items() if size > limit}
    return {name: size for name, size in large.items() if size > excepted.get(name, 0)}


def test_no_import_goes_in_a_circle():
    assert [each for each in circles() if each not in CIRCLES] == []


def test_no_file_is_longer_than_400_lines():
    sizes = {
        name: len(modules()[name].read_text(encoding="utf-8").splitlines()) for name in of(SIZED)
    }
    assert beyond(sizes, FILE_MAX, LONG_FILES) == {}


def test_no_class_is_longer_than_250_lines():
    sizes = {
        f"{name}:{node.name}": node.end_lineno - node.lineno + 1
        for name in of(SIZED)
        for node in classes_of(name)
    }
    assert beyond(sizes, CLASS_MAX, LONG_CLASSES) == {}


def test_no_constructor_takes_more_than_eight_parameters():
    """Those of dataclasses and named tuples are values: their fields are what they are."""
    sizes = {
        f"{name}:{node.name}": len(method.args.args) - 1 + len(method.args.kwonlyargs)
        for name in of(SIZED)
        for node in classes_of(name)
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
    }
    assert beyond(sizes, PARAMETERS_MAX, LONG_CONSTRUCTORS) == {}


def test_a_name_is_taken_once_in_a_package():
    """Of modules, and of classes at the top of one."""
    taken = defaultdict(list)
    for name, path in modules().items():
        if name.startswith(TWINS):
            continue
        package = name.partition(".")[0]
        if path.name != "__init__.py":
            taken[f"{package}: {path.stem}"].append(name)
        for node in tree_of(name).body:
            if isinstance(node, ast.ClassDef):
                taken[f"{package}: {node.name}"].append(name)
    twice = {name: places for name, places in taken.items() if len(places) > 1}
    assert {name: places for name, places in twice.items() if name not in TAKEN_TWICE} == {}


def test_each_street_has_a_door_of_three_lines():
    """Its `__init__.py` says in three lines what lives there, and imports nothing."""
    exempt = {"broker.handlers", "pyspark_barnabas", "pyspark_barnabas.jobs"}
    doors = [name for name, path in modules().items() if path.name == "__init__.py"]
    for name in {door for door in doors if not door.startswith("protocol.")} - exempt:
        text = modules()[name].read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 5, f"{name}: a door is read at a glance"
        assert len(tree_of(name).body) == 1, f"{name}: a door holds nothing but its words"
