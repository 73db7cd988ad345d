"""The errors of record batches.

    RecordError
    ├── CorruptBatch            the bytes are not what was written: size, structure or CRC
    ├── InvalidRecord           the bytes are whole, what they say is not allowed
    │   └── RecordsWithoutKey   some records of a batch for a compacted topic
    ├── UnsupportedCompression  a codec id that Kafka does not define
    ├── DecompressedTooLarge    opened, the batch would exceed the caller's bound
    ├── TooManyRecords          there are more records or headers than are looked at
    └── RecordBatchTooLarge     the batch as it stands exceeds the limit of its topic

They are not in `protocol.errors`, because storage raises them too and does not know requests. The
broker maps them to Kafka's error codes in one place; the classes follow Kafka's exceptions, so that
the mapping is a table of types:
CorruptRecordException (2), InvalidRecordException (87), UnsupportedCompressionTypeException
(76) and RecordTooLargeException (10, for all three of the last).
"""


class RecordError(Exception):
    """A record batch that cannot be accepted or read."""


class CorruptBatch(RecordError):
    """The bytes at `position` are no whole, undamaged record batch."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"Corrupt record batch at position {position}: {reason}")
        self.position = position
        self.reason = reason


class InvalidRecord(RecordError):
    """A batch, or a record in it, breaks a rule."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RecordsWithoutKey(InvalidRecord):
    """A compacted topic accepts no record without a key; `count` of them were in the batch.

    `indexes` are those of the first of them.
    """

    each = "Compacted topic cannot accept message without key"

    def __init__(self, indexes: list[int], count: int) -> None:
        shown = ", ".join(map(str, indexes[:3])) + (", ..." if count > 3 else "")
        super().__init__(
            f"One or more records have been rejected due to {count} record errors in total: "
            f"{self.each}, found at {shown} of the batch"
        )
        self.indexes = indexes
        self.count = count


class UnsupportedCompression(RecordError):
    """The codec id is none of 0 to 4."""

    def __init__(self, codec: int) -> None:
        super().__init__(
            f"Unknown codec id {codec}, expected 0 none, 1 gzip, 2 snappy, 3 lz4 or 4 zstd"
        )
        self.codec = codec


class DecompressedTooLarge(RecordError):
    """Decompression was stopped at the bound of `size_max` bytes."""

    def __init__(self, codec: int, compressed_size: int, size_max: int) -> None:
        super().__init__(
            f"{compressed_size} bytes of codec {codec} decompress to more than {size_max} bytes"
        )
        self.codec = codec
        self.compressed_size = compressed_size
        self.size_max = size_max


class TooManyRecords(RecordError):
    """More of `what`, records or headers, than the bound of a walk over them."""

    def __init__(self, what: str, count: int, count_max: int) -> None:
        super().__init__(f"{count} {what}, more than the {count_max} that are looked at")
        self.count = count
        self.count_max = count_max


class RecordBatchTooLarge(RecordError):
    """The batch is larger than the topic's max.message.bytes."""

    def __init__(self, size: int, size_max: int) -> None:
        super().__init__(f"The record batch has {size} bytes, more than the limit of {size_max}")
        self.size = size
        self.size_max = size_max
