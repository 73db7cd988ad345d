"""A directory's identity: Kafka's file and ours are read; any other is refused with a reason.

Apache Kafka 4.3.0's storage tool wrote the first text.
"""

from __future__ import annotations

import contextlib
import os
import random

import pytest

from storage.errors import CorruptMetadata
from storage.files import meta_properties
from storage.files.meta_properties import MetaProperties, parse_properties, random_uuid
from storage.files.text_files import uuid_bytes, uuid_text
from tests.support.memory_filesystem import MemoryFileSystem

KAFKAS = b"""#
#Fri Nov 20 22:55:12 UTC 2026
node.id=1
directory.id=3IPiIUpYM-mTVz9mx6Ws2w
version=1
cluster.id=wN7CRgE3TqC0npJ1BUX0VA
"""
OURS = MetaProperties(
    cluster_id="wN7CRgE3TqC0npJ1BUX0VA",
    node_id=1,
    directory_id=uuid_bytes("3IPiIUpYM-mTVz9mx6Ws2w"),
)


def test_kafkas_file_is_read() -> None:
    assert meta_properties.decode("p", KAFKAS) == OURS


def test_our_text() -> None:
    assert meta_properties.encode(OURS) == (
        b"version=1\ncluster.id=wN7CRgE3TqC0npJ1BUX0VA\nnode.id=1\n"
        b"directory.id=3IPiIUpYM-mTVz9mx6Ws2w\n"
    )


@pytest.mark.parametrize(
    "cluster_id",
    ["a", "my cluster", " begins with a blank", "a=b:c#d!e\\f", "größe", "日本", "a\nb"],
)
@pytest.mark.parametrize("directory_id", [None, b"\xff" * 16])
def test_any_cluster_id_is_read_back(cluster_id: str, directory_id: bytes | None) -> None:
    given = MetaProperties(cluster_id=cluster_id, node_id=2**31 - 1, directory_id=directory_id)
    assert meta_properties.decode("p", meta_properties.encode(given)) == given


BAD = [
    ("empty", b"", "no version"),
    ("zeros", bytes(100), "no version"),
    ("no cluster id", b"version=1\nnode.id=1\n", "no cluster.id"),
    ("empty cluster id", b"version=1\ncluster.id=\nnode.id=1\n", "no cluster.id"),
    ("no node id", b"version=1\ncluster.id=a\n", "no node.id"),
    ("ZooKeeper's", b"version=0\nbroker.id=1\ncluster.id=a\n", "version=0, expected 1"),
    ("from the future", b"version=2\ncluster.id=a\nnode.id=1\n", "version=2, expected 1"),
    ("node id negative", b"version=1\ncluster.id=a\nnode.id=-1\n", "node.id=-1, expected"),
    ("node id too large", b"version=1\ncluster.id=a\nnode.id=2147483648\n", "expected a number"),
    ("node id not ASCII", b"version=1\ncluster.id=a\nnode.id=\\u0661\n", "expected a number"),
    (
        "directory id not a uuid",
        b"version=1\ncluster.id=a\nnode.id=1\ndirectory.id=x\n",
        "directory.id: uuid 'x', expected 22 characters",
    ),
    (
        "directory id reserved",
        b"version=1\ncluster.id=a\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n",
        "is reserved",
    ),
]


@pytest.mark.parametrize(("name", "text", "said"), BAD, ids=[case[0] for case in BAD])
def test_unusable_properties_are_refused(name: str, text: bytes, said: str) -> None:
    with pytest.raises(CorruptMetadata) as caught:
        meta_properties.decode("/data/meta.properties", text)
    assert caught.value.path == "/data/meta.properties"
    assert said in caught.value.reason, name


def test_garbage_raises_only_the_documented_error() -> None:
    randomness = random.Random(4)
    for _ in range(2_000):
        text = bytearray(KAFKAS)
        for _ in range(randomness.randint(1, 5)):
            text[randomness.randrange(len(text))] = randomness.randrange(256)
        with contextlib.suppress(CorruptMetadata):
            meta_properties.decode("p", bytes(text))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1 ", {"a": "1"}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a", {"a": ""}),
        ("a=b=c", {"a": "b=c"}),
        ("# a=1\n! b=2\n\n  c=3\r\nd=4\re=5", {"c": "3", "d": "4", "e": "5"}),
        ("a\\ b=\\u0041\\t\\:", {"a b": "A\t:"}),
        ("a=1\na=2", {"a": "2"}),
    ],
)
def test_javas_format(text: str, values: dict[str, str]) -> None:
    assert parse_properties(text) == values


def test_files() -> None:
    disk = MemoryFileSystem()
    path = "/meta.properties"
    assert meta_properties.read(disk, path) is None
    meta_properties.write(disk, path, OURS)
    disk.crash()
    assert meta_properties.read(disk, path) == OURS


def test_random_uuids_have_kafkas_format() -> None:
    seen = {random_uuid(os.urandom) for _ in range(300)}
    assert len(seen) == 300
    for uuid in seen:
        assert uuid[6] >> 4 == 4
        assert uuid[8] >> 6 == 2
        assert not uuid_text(uuid).startswith("-")


def test_random_uuids_never_begin_with_a_dash() -> None:
    given = iter([b"\xf8" + bytes(15), b"\xfb" * 16, bytes(16)])
    assert uuid_text(random_uuid(lambda size: next(given))).startswith("AAAA")
