"""Synthetic message classes that together use every wire type and mark."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from protocol.wire import (
    ZERO_UUID,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Nullable,
    Records,
    Since,
    String,
    Tag,
    Uint16,
    Uint32,
    Until,
    Uuid,
    message,
)


@message(api_key=900, kind="data", versions=(0, 1), flexible_since=1)
@dataclass(slots=True, kw_only=True)
class Numbers:
    flag: Bool
    tiny: Int8
    small: Int16
    middle: Int32
    large: Int64
    port: Uint16
    address: Uint32
    ratio: Float64
    uuid: Uuid


@message(api_key=901, kind="data", versions=(0, 1), flexible_since=1)
@dataclass(slots=True, kw_only=True)
class Texts:
    name: String
    maybe_name: Annotated[String | None, Nullable()] = None
    blob: Bytes
    maybe_blob: Annotated[Bytes | None, Nullable()] = None
    records: Records = None
    last: Int8 = 7


@dataclass(slots=True, kw_only=True)
class Leaf:
    number: Int32
    names: list[String] = field(default_factory=list)


@dataclass(slots=True, kw_only=True, frozen=True)
class Frozen:
    epoch: Int32 = -1
    offset: Annotated[Int64, Since(1)] = -1


@dataclass(slots=True, kw_only=True)
class Branch:
    leaves: list[Leaf]
    numbers: list[Int16]
    flags: list[Bool] = field(default_factory=list)
    uuids: Annotated[list[Uuid] | None, Nullable()] = None
    maybe_names: list[Annotated[String | None, Nullable()]] = field(default_factory=list)


@message(api_key=902, kind="data", versions=(0, 2), flexible_since=1)
@dataclass(slots=True, kw_only=True)
class Tree:
    branches: Annotated[list[Branch] | None, Nullable(since=1)]
    inner: Frozen
    maybe_inner: Annotated[Leaf | None, Nullable(since=1), Since(1)] = None
    end: Int32 = 0


@message(api_key=903, kind="data", versions=(0, 4), flexible_since=2)
@dataclass(slots=True, kw_only=True)
class Versions:
    always: Int16
    from_one: Annotated[Int32, Since(1)] = 11
    to_two: Annotated[String, Until(2)] = "x"
    only_three: Annotated[list[Leaf], Since(3), Until(3)] = field(default_factory=list)
    null_from_three: Annotated[String | None, Nullable(since=3)] = "y"


@message(api_key=904, kind="data", versions=(0, 3), flexible_since=1)
@dataclass(slots=True, kw_only=True)
class Tagged:
    before: Int8 = 0
    name: Annotated[String, Tag(0, since=1)] = "none"
    frozen: Annotated[Frozen, Tag(1, since=2)] = Frozen()
    leaf: Annotated[Leaf | None, Tag(200, since=1)] = None
    null_leaf: Annotated[Leaf | None, Tag(5, since=1), Nullable(since=1)] = None
    numbers: Annotated[list[Int64], Tag(3, since=1)] = field(default_factory=list)
    uuid: Annotated[Uuid, Tag(2, since=1)] = ZERO_UUID
    after: Int8 = 0


@message(api_key=905, kind="data", versions=(0, 1), flexible_since=1)
@dataclass(slots=True, kw_only=True)
class Nothing:
    """A message without fields, like ApiVersionsRequest 0."""


ALL: list[type[Any]] = [Numbers, Texts, Tree, Versions, Tagged, Nothing]
VERSIONS = [
    (cls, version)
    for cls in ALL
    for version in range(cls.MESSAGE.version_min, cls.MESSAGE.version_max + 1)
]
