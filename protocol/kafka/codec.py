"""The compiled codecs of all messages: made at first use, kept for good.

`decoder(cls, version)` and `encoder(cls, version)` are for the data path, which keeps the function
it got; `decode_message` and `encode_message` are the same for a single value. `decoder_source` and
`encoder_source` show what was compiled: for readers, and for debugging a codec (tracebacks
show its lines anyway). To see the decoder of Produce 9::

    print(decoder_source(ProduceRequest, 9))

One codec takes about a millisecond to make, so nothing is made before it is needed; there is one
for each version of a message that some client speaks, so the cache is bounded by the declarations.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeAlias

from protocol.kafka.decoder import compile_decoder, write_decoder
from protocol.kafka.encoder import compile_encoder, write_encoder
from protocol.kafka.schema import read_layout
from protocol.wire import Buffer

Decoder: TypeAlias = Callable[[memoryview, int], tuple[Any, int]]
Encoder: TypeAlias = Callable[[Any, list[Buffer]], None]
StepEncoder: TypeAlias = Callable[[Any, list[Buffer]], Generator[int, None, None]]

_decoders: dict[tuple[type[Any], int], Decoder] = {}
_encoders: dict[tuple[type[Any], int], Encoder] = {}
_step_encoders: dict[tuple[type[Any], int], StepEncoder] = {}


def decoder(cls: type[Any], version: int) -> Decoder:
    """Return the function that reads `version` of `cls` from a buffer, beginning at a position.

    It returns the message and the position behind it, and raises DecodeError, nothing else. The
    buffer is a memoryview of bytes; fields of type records are slices of it, all else is copied.

    Raises ValueError for a version that the message does not have.
    """
    made = _decoders.get((cls, version))
    if made is None:
        made = compile_decoder(read_layout(cls, version), _title(cls, version))
        _decoders[cls, version] = made
    return made


def encoder(cls: type[Any], version: int) -> Encoder:
    """Return the function that appends `version` of a `cls` to a list of buffers.

    The last of the buffers must be a bytearray, and is one again afterwards. The function raises
    EncodeError for a message that is not what its class declares.

    Raises ValueError for a version that the message does not have.
    """
    made = _encoders.get((cls, version))
    if made is None:
        made = compile_encoder(read_layout(cls, version), _title(cls, version))
        _encoders[cls, version] = made
    return made


def step_encoder(cls: type[Any], version: int) -> StepEncoder:
    """Return what `encoder` does as a generator: it yields by how many bytes the buffer has grown.

    A step ends after an element of an array, of some 8 KiB or one element.
    """
    made = _step_encoders.get((cls, version))
    if made is None:
        made = compile_encoder(read_layout(cls, version), _title(cls, version), in_steps=True)
        _step_encoders[cls, version] = made
    return made


def decode_message(
    cls: type[Any], version: int, buffer: Buffer, position: int = 0
) -> tuple[Any, int]:
    """Read one message; return it and the position behind it. Raises DecodeError."""
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    return decoder(cls, version)(view, position)


def encode_message(message: Any, version: int) -> bytes:
    """Return the bytes of one message, records included. Raises EncodeError."""
    parts: list[Buffer] = [bytearray()]
    encoder(type(message), version)(message, parts)
    return b"".join(parts)


def decoder_source(cls: type[Any], version: int) -> str:
    """Return the Python source of the decoder."""
    return write_decoder(read_layout(cls, version), _title(cls, version)).text()


def encoder_source(cls: type[Any], version: int) -> str:
    """Return the Python source of the encoder."""
    return write_encoder(read_layout(cls, version), _title(cls, version)).text()


def _title(cls: type[Any], version: int) -> str:
    return f"{cls.__name__} {version}"
