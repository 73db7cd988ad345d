"""Layouts: the fields of each version, and refused declarations."""

from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest

from protocol.kafka.schema import Array, Field, Fixed, Sized, Struct, read_layout, size_min
from protocol.wire import (
    Int8,
    Int16,
    Nullable,
    Records,
    Since,
    String,
    Tag,
    Until,
    Uuid,
    message,
)
from tests.unit.protocol.kafka.synthetic import Frozen, Leaf, Numbers, Tagged, Texts, Tree, Versions

INT32 = Fixed("i", 4)


def declared(name: str, annotations: dict[str, Any], defaults: dict[str, Any]) -> type[Any]:
    """Return a message class with these fields; versions 0 to 2, flexible from 1."""
    cls = type(name, (), {"__annotations__": annotations, **defaults})
    made: type[Any] = message(api_key=1, kind="data", versions=(0, 2), flexible_since=1)(
        dataclass(kw_only=True)(cls)
    )
    return made


@pytest.mark.parametrize(
    ("version", "names", "absent"),
    [
        (0, ["always", "to_two", "null_from_three"], ("from_one", "only_three")),
        (1, ["always", "from_one", "to_two", "null_from_three"], ("only_three",)),
        (2, ["always", "from_one", "to_two", "null_from_three"], ("only_three",)),
        (3, ["always", "from_one", "only_three", "null_from_three"], ("to_two",)),
        (4, ["always", "from_one", "null_from_three"], ("to_two", "only_three")),
    ],
)
def test_fields_of_a_version(version: int, names: list[str], absent: tuple[str, ...]) -> None:
    layout = read_layout(Versions, version)
    assert [each.name for each in layout.fields] == names
    assert layout.absent == absent
    assert layout.flexible is (version >= 2)
    assert layout.fields[-1].type == Sized("string", nullable=version >= 3)


def test_types_nest() -> None:
    leaf = Struct(
        Leaf,
        (
            Field("number", INT32, None),
            Field("names", Array(Sized("string", nullable=False), nullable=False), None),
        ),
        (),
        (),
        flexible=True,
        nullable=True,
    )
    layout = read_layout(Tree, 1)
    assert layout.fields[2] == Field("maybe_inner", leaf, None)
    assert isinstance(layout.fields[0].type, Array)
    assert layout.fields[0].type.nullable
    assert layout.fields[1].type == Struct(
        Frozen,
        (Field("epoch", INT32, None), Field("offset", Fixed("q", 8), None)),
        (),
        (),
        flexible=True,
        nullable=False,
    )


def test_tagged_fields_are_separate_and_in_the_order_of_their_tags() -> None:
    assert [(each.tag, each.name) for each in read_layout(Tagged, 3).tagged] == [
        (0, "name"),
        (1, "frozen"),
        (2, "uuid"),
        (3, "numbers"),
        (5, "null_leaf"),
        (200, "leaf"),
    ]
    assert "frozen" in read_layout(Tagged, 1).absent
    assert len(read_layout(Tagged, 0).absent) == 6


@pytest.mark.parametrize(
    ("cls", "version", "size"),
    [
        (Numbers, 0, 1 + 1 + 2 + 4 + 8 + 2 + 4 + 8 + 16),
        (Numbers, 1, 1 + 1 + 2 + 4 + 8 + 2 + 4 + 8 + 16 + 1),
        (Texts, 0, 2 + 2 + 4 + 4 + 4 + 1),
        (Texts, 1, 5 + 1 + 1),
        (Tree, 0, 4 + 4 + 4),
        (Tree, 1, 1 + (4 + 8 + 1) + 1 + 4 + 1),
        (Tagged, 3, 2 + 1),
    ],
)
def test_least_size(cls: type[Any], version: int, size: int) -> None:
    layout = read_layout(cls, version)
    assert size_min(layout, flexible=layout.flexible) == size


REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], int, str]] = [
    ("no wire type", {"x": int}, {}, 0, "Refused.x has no wire type"),
    ("a set", {"x": set[Int16]}, {}, 0, "Refused.x has no wire type"),
    ("list of plain", {"x": list[int]}, {}, 0, r"Refused.x\[\] has no wire type"),
    ("nullable number", {"x": Annotated[Int8 | None, Nullable()]}, {}, 0, "no wire type"),
    ("null unmarked", {"x": String | None}, {"x": None}, 0, "not marked Nullable"),
    ("null string in a tag", {"x": Annotated[String | None, Tag(0)]}, {"x": None}, 1,
     "not marked Nullable"),
    ("marked without None", {"x": Annotated[String, Nullable()]}, {}, 0, "type has no None"),
    ("union", {"x": Annotated[String | Int8 | None, Nullable()]}, {}, 0, "one type or None"),
    ("since without default", {"x": Annotated[Int8, Since(1)]}, {}, 0, "must have a default"),
    ("until without default", {"x": Annotated[Int8, Until(1)]}, {}, 2, "must have a default"),
    ("tag without default", {"x": Annotated[Int8, Tag(0)]}, {}, 1, "must have a default"),
    ("same tag", {"x": Annotated[Int8, Tag(0)], "y": Annotated[Int8, Tag(0)]}, {"x": 0, "y": 0}, 1,
     "one tag to two fields"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "annotations", "defaults", "version", "words"), REFUSED)
def test_refused(
    name: str, annotations: dict[str, Any], defaults: dict[str, Any], version: int, words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        read_layout(declared("Refused", annotations, defaults), version)


def test_valid_declarations_like_the_refused_ones_are_accepted() -> None:
    layout = read_layout(
        declared(
            "Accepted",
            {"r": Records, "u": list[Uuid], "t": Annotated[Leaf | None, Tag(0)]},
            {"t": None, "u": field(default_factory=list)},
        ),
        1,
    )
    assert layout.fields == (
        Field("r", Sized("records", nullable=True), None),
        Field("u", Array(Fixed("16s", 16), nullable=False), None),
    )
    assert layout.tagged[0].tag == 0


def test_a_version_that_is_not_declared() -> None:
    with pytest.raises(ValueError, match="Numbers has no version 2: versions 0 to 1 are declared"):
        read_layout(Numbers, 2)


def test_a_class_that_is_no_message() -> None:
    with pytest.raises(TypeError, match="Leaf is not a message"):
        read_layout(Leaf, 0)
