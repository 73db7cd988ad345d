"""Codecs of synthetic messages: exact bytes, every kind of error, and hypothesis inputs.

The property tests compare real messages with kio and kafka-python.
"""

import struct
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import DecodeError, EncodeError
from protocol.kafka import primitives
from protocol.kafka.codec import (
    decode_message,
    decoder,
    decoder_source,
    encode_message,
    encoder,
    encoder_source,
)
from protocol.wire import Buffer, Int32, message
from tests.unit.protocol.kafka.strategies import MANY, messages
from tests.unit.protocol.kafka.synthetic import (
    VERSIONS,
    Branch,
    Frozen,
    Leaf,
    Nothing,
    Numbers,
    Tagged,
    Texts,
    Tree,
    Versions,
)

UUID = bytes(range(16))
NUMBERS = Numbers(
    flag=True,
    tiny=-1,
    small=-2,
    middle=-3,
    large=-4,
    port=65535,
    address=2**32 - 1,
    ratio=1.5,
    uuid=UUID,
)
NUMBERS_BYTES = struct.pack(">?bhiqHId", True, -1, -2, -3, -4, 65535, 2**32 - 1, 1.5) + UUID
TEXTS = Texts(name="ä", blob=b"\x01\x02", records=b"rrr")
TREE = Tree(
    branches=[
        Branch(
            leaves=[Leaf(number=1, names=["a", ""]), Leaf(number=2)],
            numbers=[1, -1],
            flags=[True, False],
            uuids=[UUID],
            maybe_names=[None, "b"],
        )
    ],
    inner=Frozen(epoch=3, offset=4),
)
TREE_1_BRANCH = (
    b"\x03"  # two leaves
    b"\x00\x00\x00\x01\x03\x02a\x01\x00"
    b"\x00\x00\x00\x02\x01\x00"
    b"\x03\x00\x01\xff\xff"
    b"\x03\x01\x00"
    b"\x02" + UUID + b"\x03\x00\x02b"
    b"\x00"
)

EXACT: list[tuple[str, Any, int, bytes]] = [
    ("nothing", Nothing(), 0, b""),
    ("nothing, flexible", Nothing(), 1, b"\0"),
    ("numbers", NUMBERS, 0, NUMBERS_BYTES),
    ("numbers, flexible", NUMBERS, 1, NUMBERS_BYTES + b"\x00"),
    (
        "texts",
        TEXTS,
        0,
        b"\x00\x02\xc3\xa4\xff\xff\x00\x00\x00\x02\x01\x02\xff\xff\xff\xff\x00\x00\x00\x03rrr\x07",
    ),
    ("texts, compact", TEXTS, 1, b"\x03\xc3\xa4\x00\x03\x01\x02\x00\x04rrr\x07\x00"),
    (
        "no records",
        Texts(name="", blob=b"", maybe_name="", maybe_blob=b""),
        0,
        b"\0\0\0\0" + bytes(8) + b"\xff\xff\xff\xff\x07",
    ),
    (
        "no records, compact",
        Texts(name="", blob=b"", maybe_name="", maybe_blob=b""),
        1,
        b"\x01\x01\x01\x01\x00\x07\x00",
    ),
    (
        "sizes of two bytes",
        Texts(name="n" * 127, blob=bytes(300), records=bytes(128)),
        1,
        b"\x80\x01" + b"n" * 127 + b"\x00\xad\x02" + bytes(300) + b"\x00\x81\x01" + bytes(128)
        + b"\x07\x00",
    ),
    (
        "nested, compact",
        TREE,
        1,
        b"\x02" + TREE_1_BRANCH + struct.pack(">iqx", 3, 4) + b"\xff" + bytes(5),
    ),
    (
        "null array and struct there",
        Tree(branches=None, inner=Frozen(), maybe_inner=Leaf(number=5), end=6),
        2,
        b"\x00" + struct.pack(">iqx", -1, -1) + b"\x01\x00\x00\x00\x05\x01\x00" + b"\0\0\0\6\0",
    ),
    ("version 0 of five", Versions(always=1, null_from_three="z"), 0, b"\0\1\0\1x\0\1z"),
    ("version 1", Versions(always=1, from_one=2), 1, b"\0\1\0\0\0\2\0\1x\0\1y"),
    ("version 2", Versions(always=1, from_one=2), 2, b"\0\1\0\0\0\2\2x\2y\0"),
    (
        "version 3",
        Versions(always=1, only_three=[Leaf(number=9)], null_from_three=None),
        3,
        b"\0\1\0\0\0\x0b\2\0\0\0\x09\1\0\0\0",
    ),
    ("version 4", Versions(always=1), 4, b"\0\1\0\0\0\x0b\2y\0"),
    ("tagged, not flexible", Tagged(name="not written"), 0, b"\0\0"),
    ("tagged defaults", Tagged(frozen=Frozen(), numbers=[]), 3, b"\0\0\0"),
    (
        "tagged, in the order of tags",
        Tagged(name="q", leaf=Leaf(number=3), numbers=[1], frozen=Frozen(epoch=3)),
        3,
        b"\0\0\4"
        b"\0\2\2q"
        b"\1\x0d" + struct.pack(">iqx", 3, -1) + b"\3\x09\2" + struct.pack(">q", 1)
        + b"\xc8\1\6\0\0\0\3\1\0",
    ),
    ("tagged, null struct with marker", Tagged(null_leaf=Leaf(number=1)), 1,
     b"\0\0\1\5\7\1\0\0\0\1\1\0"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "version", "wire"), EXACT)
def test_exact_bytes(name: str, value: Any, version: int, wire: bytes) -> None:
    assert encode_message(value, version) == wire
    decoded, end = decode_message(type(value), version, wire)
    assert end == len(wire)
    assert encode_message(decoded, version) == wire


@pytest.mark.parametrize(("name", "value", "version", "wire"), EXACT)
def test_truncated_at_each_byte(name: str, value: Any, version: int, wire: bytes) -> None:
    for size in range(len(wire)):
        with pytest.raises(DecodeError):
            decode_message(type(value), version, wire[:size])


@pytest.mark.parametrize(("cls", "version"), VERSIONS)
@MANY
@given(data=st.data())
def test_a_message_survives_a_round_trip(cls: type[Any], version: int, data: st.DataObject) -> None:
    value = data.draw(messages(cls, version))
    wire = encode_message(value, version)
    assert decode_message(cls, version, b"??" + wire + b"!", 2) == (value, len(wire) + 2)
    for cut in range(len(wire)) if len(wire) < 200 else ():
        with pytest.raises(DecodeError):
            decode_message(cls, version, wire[:cut])


@pytest.mark.parametrize(("cls", "version"), VERSIONS)
@MANY
@given(data=st.data())
def test_any_bytes_give_a_message_or_a_decode_error(
    cls: type[Any], version: int, data: st.DataObject
) -> None:
    wire = bytearray(encode_message(data.draw(messages(cls, version)), version))
    for position in data.draw(st.lists(st.integers(0, len(wire)), max_size=4)):
        wire[position : position + 1] = bytes((data.draw(st.integers(0, 255)),))
    for hostile in (wire, data.draw(st.binary(max_size=60))):
        try:
            _, end = decode_message(cls, version, hostile)
        except DecodeError:
            continue
        assert 0 <= end <= len(hostile)


def text(name: bytes = b"\x02a", maybe: bytes = b"\x00", blob: bytes = b"\x01") -> bytes:
    return name + maybe + blob + b"\x00\x00\x07\x00"


NULL = "was serialized as null"
LENGTH = "had invalid length"
REMAINING = "bytes remaining"
HOSTILE: list[tuple[str, type[Any], int, bytes, str]] = [
    ("empty", Numbers, 0, b"", "Numbers 0 ends inside a field: 0 bytes, read to 0"),
    ("string null", Texts, 0, b"\xff\xff" + bytes(20), "Texts.name " + NULL),
    ("string null, compact", Texts, 1, text(b"\x00"), "Texts.name " + NULL),
    ("string of -2", Texts, 0, b"\xff\xfe" + bytes(20), "Texts.name " + LENGTH + " -2"),
    ("nullable string of -2", Texts, 0, b"\0\1a\xff\xfe" + bytes(20), LENGTH + " -2"),
    ("string beyond the end", Texts, 0, b"\x7f\xffa", REMAINING),
    ("string beyond the end, compact", Texts, 1, b"\x05a", REMAINING),
    ("string of 2^31 - 1", Texts, 1, b"\x80\x80\x80\x80\x08aa", LENGTH + " 2147483647"),
    ("nullable string of 2^31 - 1", Texts, 1, text(maybe=b"\x80\x80\x80\x80\x08"), LENGTH),
    ("string of 32,768", Texts, 1, text(b"\x81\x80\x02" + b"a" * 32768), LENGTH + " 32768"),
    ("varint of six bytes", Texts, 1, text(b"\x80\x80\x80\x80\x80\x01"), "longer than 5 bytes"),
    ("varint of ten bytes", Texts, 1, text(b"\xff" * 9 + b"\x01"), "longer than 5 bytes"),
    ("varint of 33 bits", Texts, 1, text(b"\x80\x80\x80\x80\x10"), "exceeds 32 bits"),
    ("varint without an end", Texts, 1, b"\x80", "ends inside a field"),
    ("bytes null", Texts, 0, b"\0\1a\xff\xff\xff\xff\xff\xff" + bytes(9), "Texts.blob " + NULL),
    ("bytes null, compact", Texts, 1, text(blob=b"\x00"), "Texts.blob " + NULL),
    ("bytes of -2", Texts, 0, b"\0\1a\xff\xff\xff\xff\xff\xfe" + bytes(9), LENGTH + " -2"),
    ("bytes of 2 GiB", Texts, 0, b"\0\1a\xff\xff\x7f\xff\xff\xff" + bytes(9), REMAINING),
    ("bytes of 4 GiB, compact", Texts, 1, text(blob=b"\xff\xff\xff\xff\x0f"), REMAINING),
    ("records of 2 GiB", Texts, 0, b"\0\0\xff\xff" + bytes(4) + b"\xff\xff\xff\xff\x7f\xff\xff\xff",
     REMAINING),
    ("records of -2", Texts, 0, b"\0\0\xff\xff" + bytes(4) + b"\xff\xff\xff\xff\xff\xff\xff\xfe",
     LENGTH + " -2"),
    ("array null", Tree, 0, b"\xff\xff\xff\xff" + bytes(20), "Tree.branches " + NULL),
    ("array of -2", Tree, 0, b"\xff\xff\xff\xfe" + bytes(20), LENGTH + " -2"),
    ("array of 2^31 - 1", Tree, 0, b"\x7f\xff\xff\xff" + bytes(20),
     "Tried to allocate a collection of size 2147483647, but there are only 20 bytes remaining."),
    ("array of 2^32 - 1, compact", Tree, 1, b"\xff\xff\xff\xff\x0f" + bytes(20),
     "Tried to allocate a collection of size 4294967294, but there are only 20 bytes remaining."),
    ("array that cannot fit by its least size", Tree, 1, b"\x05" + bytes(20),
     "Tried to allocate a collection of size 4, but there are only 20 bytes remaining."),
    ("inner array null", Tree, 1, b"\x02\x00" + bytes(30), "Branch.leaves " + NULL),
    ("inner array of numbers null", Tree, 1, b"\x02\x01\x00" + bytes(30), "Branch.numbers " + NULL),
    ("numbers that cannot fit", Tree, 1, b"\x02\x01\x10" + bytes(29), "Branch.numbers"),
    ("version 2 has null, version 1 has not", Versions, 1, b"\0\1\0\0\0\2\0\1x\xff\xff", NULL),
    ("tags beyond the end", Numbers, 1, NUMBERS_BYTES + b"\x7f", REMAINING),
    ("tag size beyond the end", Numbers, 1, NUMBERS_BYTES + b"\x01\x09\x05aa", REMAINING),
    ("unknown tag twice", Numbers, 1, NUMBERS_BYTES + b"\x02\x09\x00\x09\x00", "appears twice"),
    ("known tag twice", Tagged, 1, b"\0\0\2\0\2\2q\0\2\2q", "tag 0 of Tagged appears twice"),
    ("tag larger than its content", Tagged, 1, b"\0\0\1\0\3\2qq", "has 3 bytes, 2 were read"),
    ("tag smaller than its content", Tagged, 1, b"\0\0\1\0\1\2q", "has 1 bytes, 2 were read"),
    ("null in a tag", Tagged, 1, b"\0\0\1\0\1\0", "Tagged.name " + NULL),
    ("tagged struct ends early", Tagged, 3, b"\0\0\1\1\2\0\0", "ends inside a field"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "cls", "version", "wire", "words"), HOSTILE)
def test_hostile_bytes(name: str, cls: type[Any], version: int, wire: bytes, words: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_message(cls, version, wire)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("version", "wire", "name"),
    [
        (0, b"\0\1\xff" + bytes(20), "\ufffd"),
        (1, text(b"\x02\xff"), "\ufffd"),
        (1, text(b"\x03\xc0\x80"), "\ufffd\ufffd"),
        (1, text(b"\x04\xed\xa0\x80"), "\ufffd"),
    ],
)
def test_text_that_is_not_utf8_is_read_as_java_reads_it(
    version: int, wire: bytes, name: str
) -> None:
    for _ in range(2):  # the first read compiles the function
        assert decode_message(Texts, version, wire)[0].name == name


@pytest.mark.parametrize(("byte", "flag"), [(0, False), (1, True), (2, True), (255, True)])
def test_any_byte_but_zero_is_true(byte: int, flag: bool) -> None:
    assert decode_message(Numbers, 0, bytes((byte,)) + NUMBERS_BYTES[1:])[0].flag is flag


def test_unknown_tags_are_skipped() -> None:
    wire = b"\0\0\3" + b"\0\2\2q" + b"\x07\x02aa" + b"\xff\x01\x00"
    decoded, end = decode_message(Tagged, 1, wire)
    assert decoded == Tagged(name="q")
    assert end == len(wire)
    assert decode_message(Numbers, 1, NUMBERS_BYTES + b"\x02\x07\x02aa\x09\x00")[0] == NUMBERS


def test_tags_of_later_versions_are_unknown_in_earlier_ones() -> None:
    wire = encode_message(Tagged(frozen=Frozen(epoch=1)), 2)
    assert decode_message(Tagged, 1, wire)[0] == Tagged()


@pytest.mark.parametrize("flexible", [0, 1])
def test_the_elements_of_a_message_are_bounded(
    flexible: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three bytes on the wire become an object, so all arrays of a message share one bound."""
    monkeypatch.setattr(primitives, "ELEMENTS_MAX", 10)

    @dataclass(slots=True, kw_only=True)
    class Row:
        cells: list[Int32] = field(default_factory=list)

    @message(api_key=905, kind="data", versions=(0, 1), flexible_since=1)
    @dataclass(slots=True, kw_only=True)
    class Table:
        rows: list[Row]

    assert decode_message(Table, flexible, encode_message(Table(rows=[Row()] * 10), flexible))
    for rows in ([Row()] * 11, [Row(cells=[1] * 5)] * 2):
        wire = encode_message(Table(rows=rows), flexible)
        with pytest.raises(DecodeError, match="10 elements"):
            decode_message(Table, flexible, wire)


def test_unknown_tags_count_as_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(primitives, "ELEMENTS_MAX", 10)

    @message(api_key=906, kind="data", versions=(0, 0), flexible_since=0)
    @dataclass(slots=True, kw_only=True)
    class Empty:
        pass

    tags = b"".join(bytes((tag, 0)) for tag in range(11))
    assert decode_message(Empty, 0, b"\x0a" + tags) == (Empty(), 21)
    with pytest.raises(DecodeError, match="10 elements"):
        decode_message(Empty, 0, b"\x0b" + tags)


@pytest.mark.parametrize("version", [0, 1])
def test_records_are_a_view_of_the_frame(version: int) -> None:
    frame = bytearray(encode_message(TEXTS, version))
    records = decode_message(Texts, version, memoryview(frame))[0].records
    assert isinstance(records, memoryview)
    records[0] = ord("R")
    assert b"Rrr" in frame
    read_only = decode_message(Texts, version, memoryview(bytes(frame)))[0].records
    assert read_only.readonly


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(("size", "apart"), [(1023, False), (1024, True), (200_000, True)])
def test_large_records_are_not_copied(version: int, size: int, apart: bool) -> None:
    records = memoryview(bytes(size))
    parts: list[Buffer] = [bytearray(b"head")]
    encoder(Texts, version)(Texts(name="n", blob=b"", records=records), parts)
    assert (records in [part for part in parts if part is records]) is apart
    assert len(parts) == (3 if apart else 1)
    assert isinstance(parts[-1], bytearray)
    assert decode_message(Texts, version, b"".join(parts), 4)[0].records == records


UNWRITABLE: list[tuple[str, Any, int]] = [
    ("string None", Texts(name=None, blob=b""), 0),  # type: ignore[arg-type]
    ("bytes None", Texts(name="", blob=None), 1),  # type: ignore[arg-type]
    ("string is bytes", Texts(name=b"x", blob=b""), 0),  # type: ignore[arg-type]
    ("bytes is str", Texts(name="", blob="x"), 0),  # type: ignore[arg-type]
    ("string too long", Texts(name="a" * 32768, blob=b""), 0),
    ("string too long, compact", Texts(name="a" * 32768, blob=b""), 1),
    ("surrogate", Texts(name="\ud800", blob=b""), 0),
    ("number out of range", Versions(always=1 << 15), 0),
    ("number None", Versions(always=None), 0),  # type: ignore[arg-type]
    ("bool None", Numbers(**{**{n: getattr(NUMBERS, n) for n in NUMBERS.__slots__}, "flag": None}),
     0),
    ("uuid too short", Numbers(**{**{n: getattr(NUMBERS, n) for n in NUMBERS.__slots__},
                                  "uuid": b"short"}), 0),
    ("array None", Tree(branches=None, inner=Frozen()), 0),
    ("struct None", Tree(branches=[], inner=None), 0),  # type: ignore[arg-type]
    ("null before its version", Versions(always=1, null_from_three=None), 2),
    ("other class", Tree(branches=[Leaf(number=1)], inner=Frozen()), 1),  # type: ignore[list-item]
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "version"), UNWRITABLE)
def test_values_that_cannot_be_written(name: str, value: Any, version: int) -> None:
    with pytest.raises(EncodeError):
        encode_message(value, version)


@pytest.mark.parametrize("version", [-1, 5])
def test_versions_that_do_not_exist(version: int) -> None:
    with pytest.raises(ValueError, match="Versions has no version"):
        decoder(Versions, version)
    with pytest.raises(ValueError, match="versions 0 to 4 are declared"):
        encoder(Versions, version)


def test_codecs_are_created_once() -> None:
    assert decoder(Tree, 1) is decoder(Tree, 1)
    assert encoder(Tree, 1) is encoder(Tree, 1)
    assert decoder(Tree, 1) is not decoder(Tree, 2)


def test_the_source_is_available() -> None:
    assert "o1.always, o1.from_one, n = unpack_hiB(buf, pos)" in decoder_source(Versions, 2)
    assert "out += pack_hiB(o1.always, o1.from_one, n1)" in encoder_source(Versions, 2)


def test_an_invalid_declaration_is_refused_when_the_codec_is_created() -> None:
    @message(api_key=907, kind="data", versions=(0, 0), flexible_since=None)
    @dataclass(slots=True, kw_only=True)
    class Wrong:
        maybe: Int32 | None = None

    with pytest.raises(TypeError, match=r"Wrong.maybe may be None, but is not marked Nullable"):
        decoder(Wrong, 0)
