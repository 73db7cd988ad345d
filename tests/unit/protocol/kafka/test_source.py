"""Generated source: indentation, names, bindings, and tracebacks that show it."""

import traceback
from dataclasses import dataclass, field

import pytest

from protocol.kafka.source import GeneratedCode
from protocol.wire import ZERO_UUID


@dataclass
class Defaults:
    number: int = 3
    text: str = "a'b"
    nothing: str | None = None
    uuid: bytes = ZERO_UUID
    items: list[int] = field(default_factory=list)
    made: dict[str, int] = field(default_factory=dict)
    shared: tuple[int, ...] = (1, 2)


def test_blocks_indent() -> None:
    source = GeneratedCode()
    with source.block("if a:"):
        source.add("b", "c")
        with source.block("for _ in d:"):
            source.add("e")
    source.add("f")
    assert source.text() == "if a:\n    b\n    c\n    for _ in d:\n        e\nf\n"


def test_an_empty_block_is_still_python() -> None:
    source = GeneratedCode()
    with source.block("try:"):
        pass
    assert source.text() == "try:\n    pass\n"


def test_names_are_unique() -> None:
    source = GeneratedCode()
    assert [source.name("a"), source.name("b"), source.name("a")] == ["a1", "b1", "a2"]


def test_a_name_has_one_binding() -> None:
    source = GeneratedCode()
    assert source.bind("it", int) == "it"
    assert source.bind("it", int) == "it"
    with pytest.raises(TypeError, match="two different things are called it"):
        source.bind("it", str)


@pytest.mark.parametrize(
    ("name", "expression"),
    [
        ("number", "3"),
        ("text", '"a\'b"'),
        ("nothing", "None"),
        ("uuid", "ZERO_UUID"),
        ("items", "[]"),
        ("made", "default_Defaults_made()"),
        ("shared", "default_Defaults_shared"),
    ],
)
def test_defaults(name: str, expression: str) -> None:
    source = GeneratedCode()
    assert source.default_of(Defaults, name) == expression
    value = eval(expression, source.namespace)
    assert value == getattr(Defaults(), name)


def test_tracebacks_show_the_source() -> None:
    source = GeneratedCode()
    with source.block("def fail():"):
        source.add("return 1 // 0  # here")
    fail = source.compile("<a page>", "fail")
    with pytest.raises(ZeroDivisionError) as caught:
        fail()
    assert "return 1 // 0  # here" in "".join(traceback.format_exception(caught.value))
