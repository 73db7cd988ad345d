"""The identity of a directory that is served read-only."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.read_only.directory_identity import overlay
from config.broker import BrokerConfig
from config.load import load
from storage.errors import CorruptMetadata
from storage.files import meta_properties
from storage.files.os_filesystem import OsFileSystem
from tests.support import data_directory
from tests.support.memory_filesystem import MemoryFileSystem


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_directory.make(tmp_path_factory.mktemp("read-only") / "data")


@pytest.fixture
def config() -> Iterator[BrokerConfig]:
    logging.disable(logging.CRITICAL)
    yield load(environment={}, set_values=["node.id=7"], data_dir="/d").config
    logging.disable(logging.NOTSET)


def copy_of(directory: Path, name: str) -> MemoryFileSystem:
    """The metadata log of a directory, a partition and no meta.properties, in memory."""
    disk = MemoryFileSystem()
    for folder in ("/d", "/d/__cluster_metadata-0", "/d/t-0"):
        disk.mkdir(folder)
    disk.replace(f"/d/{name}", (directory / name).read_bytes())
    return disk


METADATA = "__cluster_metadata-0/00000000000000000000.log"


@pytest.mark.parametrize("text", [None, b"", b"garbage", b"version=1\nnode.id=3\ncluster.id=c\n"])
def test_a_directory_without_an_identity_gets_one_in_memory(
    directory: Path, text: bytes | None, config: BrokerConfig
) -> None:
    disk = copy_of(directory, METADATA)
    if text is not None:
        disk.replace("/d/meta.properties", text)
    before = disk.list("/d")
    meta = meta_properties.read(overlay(disk, "/d", config, os.urandom), "/d/meta.properties")
    original = meta_properties.read(OsFileSystem(), str(directory / "meta.properties"))
    assert meta is not None
    assert original is not None
    assert (meta.node_id, meta.directory_id) == (original.node_id, original.directory_id)
    assert disk.list("/d") == before


def test_a_directory_of_another_node_than_configured_keeps_its_identity(
    directory: Path, config: BrokerConfig
) -> None:
    over = overlay(OsFileSystem(), str(directory), config, os.urandom)
    meta = meta_properties.read(over, str(directory / "meta.properties"))
    assert meta is not None
    assert meta.node_id == 1


def test_a_directory_without_partitions_is_the_configured_nodes(
    directory: Path, config: BrokerConfig
) -> None:
    disk = copy_of(directory, METADATA)
    disk.rmdir("/d/t-0")
    meta = meta_properties.read(overlay(disk, "/d", config, os.urandom), "/d/meta.properties")
    assert meta is not None
    assert meta.node_id == 7


def test_a_directory_without_metadata_is_refused(config: BrokerConfig) -> None:
    with pytest.raises(CorruptMetadata, match="which topics"):
        overlay(MemoryFileSystem(), "/d", config, os.urandom)
