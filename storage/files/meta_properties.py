"""`meta.properties`: the identity of a data directory.

    version=1
    cluster.id=wN7CRgE3TqC0npJ1BUX0VA      any text; base64url of a uuid when we choose it
    node.id=1
    directory.id=3IPiIUpYM-mTVz9mx6Ws2w    base64url; names this directory in the metadata log

A Java properties file, as `kafka-storage.sh format` writes it (Kafka: MetaProperties,
PropertiesUtils), but without the date. Kafka reads the lines in any order. A directory without the
file is new. If the file cannot be read, the broker does not start, since a new identity would
orphan every log. Only version 1, that of KRaft, is supported: version 0 belonged to ZooKeeper.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from storage.errors import CorruptMetadata
from storage.files.filesystem import FileSystem
from storage.files.text_files import uuid_bytes, uuid_text

VERSION = "1"
NODE_ID_MAX = 2**31 - 1
RESERVED_UUIDS = 100  # Kafka's Uuid.RESERVED: the first hundred have meanings of their own
_UUID_TRIES_MAX = 100  # one in 64 begins with a dash


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """Identity of a data directory. `directory_id` is 16 bytes; None in a file from before 3.7."""

    cluster_id: str
    node_id: int
    directory_id: bytes | None


def random_uuid(random_bytes: Callable[[int], bytes]) -> bytes:
    """Make a random uuid as Kafka's Uuid.randomUuid does: version 4, text without a leading dash.

    `random_bytes` is the source of randomness, normally os.urandom.
    """
    for _ in range(_UUID_TRIES_MAX):
        raw = bytearray(random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        uuid = bytes(raw)
        if not uuid_text(uuid).startswith("-"):
            return uuid
    raise AssertionError("the source of randomness repeats itself")


def encode(properties: MetaProperties) -> bytes:
    """Text of meta.properties."""
    lines = [
        f"version={VERSION}",
        f"cluster.id={_escaped(properties.cluster_id)}",
        f"node.id={properties.node_id}",
    ]
    if properties.directory_id is not None:
        lines.append(f"directory.id={uuid_text(properties.directory_id)}")
    return "\n".join([*lines, ""]).encode("latin-1")


def decode(path: str, text: bytes) -> MetaProperties:
    """Read meta.properties; `path` is for the error. Raises CorruptMetadata."""
    values = parse_properties(text.decode("latin-1"))
    version = _required(path, values, "version")
    if version != VERSION:
        raise CorruptMetadata(path, f"version={version}, expected {VERSION} (KRaft)")
    cluster_id = _required(path, values, "cluster.id")
    node_id = _required(path, values, "node.id")
    if not re.fullmatch("[0-9]{1,10}", node_id, re.ASCII) or int(node_id) > NODE_ID_MAX:
        raise CorruptMetadata(path, f"node.id={node_id}, expected a number from 0 to {NODE_ID_MAX}")
    directory_id = None
    if "directory.id" in values:
        try:
            directory_id = uuid_bytes(values["directory.id"])
        except ValueError as error:
            raise CorruptMetadata(path, f"directory.id: {error}") from None
        if int.from_bytes(directory_id, "big") < RESERVED_UUIDS:
            raise CorruptMetadata(path, f"directory.id={values['directory.id']} is reserved")
    return MetaProperties(cluster_id=cluster_id, node_id=int(node_id), directory_id=directory_id)


def read(filesystem: FileSystem, path: str) -> MetaProperties | None:
    """Read meta.properties; None without the file. Raises CorruptMetadata."""
    try:
        text = filesystem.read(path)
    except FileNotFoundError:
        return None
    return decode(path, text)


def write(filesystem: FileSystem, path: str, properties: MetaProperties) -> None:
    """Replace meta.properties, durably. Raises OSError."""
    filesystem.replace(path, encode(properties))


def parse_properties(text: str) -> dict[str, str]:
    r"""Read the part of Java's properties format that Properties.store writes.

    Comments begin with # or !. Key and value are separated by =, : or white space. A backslash
    escapes the next character, and \uXXXX is a character by its code. Lines do not continue.
    """
    values = {}
    for line in re.split(r"\r\n|\r|\n", text):
        stripped = line.strip(" \t\f")
        if not stripped or stripped[0] in "#!":
            continue
        match = re.match(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", stripped)
        assert match is not None, "every part of the pattern may be empty"
        values[_unescaped(match[1])] = _unescaped(match[2])
    return values


def _required(path: str, values: dict[str, str], key: str) -> str:
    value = values.get(key, "")
    if not value:
        raise CorruptMetadata(
            path,
            f"no {key}, expected version, cluster.id and node.id; restore the file from a backup, "
            "or start on an empty directory",
        )
    return value


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescaped(text: str) -> str:
    return re.sub(
        r"\\(u[0-9a-fA-F]{4}|.)",
        lambda match: (
            chr(int(match[1][1:], 16)) if len(match[1]) == 5 else _ESCAPES.get(match[1], match[1])
        ),
        text,
    )


def _escaped(text: str) -> str:
    """Escape a value as Properties.store does."""
    escaped = re.sub(r"[\\=:#!]", lambda match: "\\" + match[0], text)
    escaped = re.sub(r"[^\x20-\x7e]", lambda match: f"\\u{ord(match[0]):04X}", escaped)
    return "\\" + escaped if escaped.startswith(" ") else escaped
