"""The source of encoders; test_codec tests their behaviour."""

from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from protocol.kafka.codec import encode_message
from protocol.kafka.encoder import STEP_BYTES, compile_encoder, encoder_filename, write_encoder
from protocol.kafka.schema import read_layout
from protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.wire import Int64, Records, Tag, message
from tests.unit.protocol.kafka.synthetic import VERSIONS, Numbers


def test_neighbouring_fields_are_packed_at_once() -> None:
    text = write_encoder(read_layout(Numbers, 1), "Numbers 1").text()
    assert text.count("pack_") == 1
    assert "out += pack_bbhiqHId16sx(" in text


@pytest.mark.parametrize(("cls", "version"), VERSIONS)
def test_the_source_is_the_same_each_time(cls: type[Any], version: int) -> None:
    layout = read_layout(cls, version)
    assert write_encoder(layout, "t").text() == write_encoder(layout, "t").text()
    assert len({encoder_filename(f"{cls.__name__} {v}") for cls, v in VERSIONS}) == len(VERSIONS)


def test_records_cannot_be_tagged() -> None:
    @message(api_key=0, kind="data", versions=(0, 0), flexible_since=0)
    @dataclass(slots=True, kw_only=True)
    class Wrong:
        before: Int64 = 0
        records: Annotated[Records, Tag(0)] = None

    with pytest.raises(TypeError, match=r"Wrong\.records is a tagged field"):
        write_encoder(read_layout(Wrong, 0), "Wrong 0")


def test_a_step_of_an_encoder_is_bounded() -> None:
    layout = read_layout(MetadataResponse, 13)
    assert "yield" not in write_encoder(layout, "t").text()
    partitions = [MetadataResponsePartition(partition_index=n, leader_id=1) for n in range(10_000)]
    response = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=partitions)])
    parts: list[Any] = [bytearray()]
    grown = list(compile_encoder(layout, "t", in_steps=True)(response, parts))
    assert len(grown) > 20
    assert max(grown) < 2 * STEP_BYTES
    assert bytes(parts[0]) == encode_message(response, 13)
