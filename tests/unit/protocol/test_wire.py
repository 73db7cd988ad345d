"""Marks: the specification that @message stores, and the declarations it refuses."""

from dataclasses import dataclass
from typing import Annotated, get_args, get_type_hints

import pytest

from protocol import wire
from protocol.wire import (
    Int16,
    MessageSpec,
    Nullable,
    Since,
    String,
    message,
    message_spec,
    structure,
)


@message(api_key=7, kind="request", versions=(1, 4), flexible_since=3)
@structure
class Example:
    name: Annotated[String | None, Nullable(), Since(2)] = None
    number: Int16


def test_spec_is_on_the_slotted_class_and_its_objects() -> None:
    assert message_spec(Example) == MessageSpec(7, "request", 1, 4, 3)
    assert Example(number=1).MESSAGE.versions == (1, 4)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        Example(number=1).other = 2  # type: ignore[attr-defined]


def test_structures_are_equal_and_shown_field_by_field() -> None:
    one = Example(name="x", number=1)
    assert one == Example(number=1, name="x")
    assert one != Example(name="x", number=2)
    assert one != ("x", 1)
    assert repr(one) == "Example(name='x', number=1)"
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


@pytest.mark.parametrize(("version", "flexible"), [(1, False), (2, False), (3, True), (4, True)])
def test_flexible_versions(version: int, flexible: bool) -> None:
    assert message_spec(Example).is_flexible(version) is flexible


def test_never_flexible() -> None:
    assert not MessageSpec(0, "data", 0, 9, None).is_flexible(9)


@pytest.mark.parametrize("versions", [(2, 1), (-1, 3)])
def test_empty_or_negative_versions_are_refused(versions: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="versions must be"):
        message(api_key=0, kind="data", versions=versions, flexible_since=None)


def test_a_class_that_is_no_dataclass_is_refused() -> None:
    with pytest.raises(TypeError, match="Plain"):

        @message(api_key=0, kind="data", versions=(0, 0), flexible_since=None)
        class Plain:
            pass


def test_a_class_without_the_decorator_is_no_message() -> None:
    @dataclass
    class Inherits(Example):
        pass

    with pytest.raises(TypeError, match="Inherits"):
        message_spec(Inherits)


def test_marks_survive_in_type_hints_and_types_stay_plain() -> None:
    hints = get_type_hints(Example, include_extras=True)
    assert list(hints) == ["name", "number"]
    assert get_args(hints["name"])[1:] == (Nullable(), Since(2))
    assert get_type_hints(Example) == {"name": str | None, "number": int}


@pytest.mark.parametrize(
    ("alias", "plain", "name"),
    [
        (wire.Bool, bool, "bool"),
        (wire.Int8, int, "int8"),
        (wire.Int16, int, "int16"),
        (wire.Int32, int, "int32"),
        (wire.Int64, int, "int64"),
        (wire.Uint16, int, "uint16"),
        (wire.Uint32, int, "uint32"),
        (wire.Float64, float, "float64"),
        (wire.String, str, "string"),
        (wire.Bytes, bytes, "bytes"),
        (wire.Uuid, bytes, "uuid"),
        (wire.Records, wire.Buffer | None, "records"),
    ],
)
def test_aliases(alias: object, plain: object, name: str) -> None:
    assert get_args(alias) == (plain, wire.Wire(name))
