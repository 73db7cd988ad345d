"""The constants that histories make small are there, are small then, and are as before after."""

import ast
import importlib
import pkgutil
import random
import sys
from pathlib import Path

import pytest

import broker
import protocol
import storage
from tests.simulation.life import loaded_from
from tests.simulation.scale import ALL, MARK, SCALES, TURNS, drawn, scaled


@pytest.mark.parametrize("name", ALL)
def test_a_constant_is_small_where_it_is_used(name):
    spaces = [vars(importlib.import_module(path)) for path in ALL[name].modules]
    attribute = name.partition(MARK)[2]
    before = [space[attribute] for space in spaces]
    assert len(set(before)) == 1
    for value in ALL[name].values:
        assert value < before[0]
        with scaled({name: value}):
            assert {space[attribute] for space in spaces} == {value}
    assert [space[attribute] for space in spaces] == before


@pytest.mark.parametrize("name", ALL)
def test_every_module_that_imports_a_constant_is_named(name):
    path, _, attribute = name.partition(MARK)
    source = importlib.import_module(path)
    for package in (broker, storage, protocol):
        for product in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(product.name)
    users = {
        other
        for other, module in sys.modules.items()
        if other.partition(".")[0] in ("broker", "storage", "protocol")
        and module is not source
        and vars(module).get(attribute) is vars(source)[attribute]
        and f"import {attribute}" in _imports_of(module, path)
    }
    assert users <= set(ALL[name].modules)


def _imports_of(module, path):
    """Return which names a module imports from another, as one text."""
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    return " ".join(
        f"import {alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == path
        for alias in node.names
    )


def test_a_plan_names_them_among_its_tiny_fields():
    names = set().union(*(drawn(random.Random(seed)) for seed in range(100)))
    assert names == set(SCALES)
    names = set().union(*(drawn(random.Random(seed), TURNS) for seed in range(100)))
    assert names == set(TURNS)
    tiny = {"barnabas_unflushed_bytes_max": 500, "broker.runtime.steps/SLICE_NS": 1_000}
    loaded = loaded_from({}, tiny)
    assert loaded.config.barnabas_unflushed_bytes_max == 500
    assert loaded.scales == {"broker.runtime.steps/SLICE_NS": 1_000}
