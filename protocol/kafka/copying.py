"""Kafka's protocol where what is sent passes through this process: over TLS.

The records of an answer are copied out of their file, never mapped (`RequestHeader`), since the
encryption reads them. What one answer may copy is bounded: it is read on the loop if it is in the
page cache.
"""

from typing import Final

from protocol.api_keys import ApiKey
from protocol.dialect import DecodedRequest
from protocol.kafka.dialect import KafkaDialect

COPIED_BYTES_MAX: Final = 8 * 1024 * 1024
_FETCH: Final = int(ApiKey.FETCH)


class CopyingKafkaDialect(KafkaDialect):
    """Kafka's dialect, with records that are copied."""

    __slots__ = ()

    def decode_request(self, frame: memoryview, *, in_thread: bool = False) -> DecodedRequest:
        """Decode one frame as the dialect does; a fetch asks for COPIED_BYTES_MAX at most."""
        decoded = super().decode_request(frame, in_thread=in_thread)
        header = decoded.header
        header.copies_records = True
        if header.api_key == _FETCH:
            body = decoded.body
            body.max_bytes = min(body.max_bytes, COPIED_BYTES_MAX)
        return decoded
