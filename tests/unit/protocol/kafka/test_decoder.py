"""The source of decoders; test_codec tests their behaviour."""

from dataclasses import dataclass
from typing import Any

import pytest

from protocol.kafka.decoder import decoder_filename, write_decoder
from protocol.kafka.schema import read_layout
from protocol.wire import Int8, message
from tests.unit.protocol.kafka.synthetic import VERSIONS, Numbers, Tree


def test_neighbouring_fields_are_read_at_once() -> None:
    text = write_decoder(read_layout(Numbers, 1), "Numbers 1").text()
    assert text.count("unpack_") == 1
    assert "n = unpack_tbhiqHId16sB(buf, pos)" in text
    assert "pos += 47" in text


def test_arrays_of_numbers_are_read_at_once() -> None:
    text = write_decoder(read_layout(Tree, 1), "Tree 1").text()
    assert "list(unpack_from(f'>{n}h', buf, pos))" in text


@pytest.mark.parametrize(("cls", "version"), VERSIONS)
def test_the_source_is_the_same_each_time(cls: type[Any], version: int) -> None:
    layout = read_layout(cls, version)
    assert write_decoder(layout, "t").text() == write_decoder(layout, "t").text()
    assert len({decoder_filename(f"{cls.__name__} {v}") for cls, v in VERSIONS}) == len(VERSIONS)


def test_a_class_with_post_init_is_refused() -> None:
    @message(api_key=0, kind="data", versions=(0, 0), flexible_since=None)
    @dataclass(slots=True, kw_only=True)
    class Checks:
        number: Int8

        def __post_init__(self) -> None:
            raise AssertionError

    with pytest.raises(TypeError, match="Checks has a __post_init__"):
        write_decoder(read_layout(Checks, 0), "Checks 0")
