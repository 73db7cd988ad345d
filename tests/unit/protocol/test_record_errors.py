"""Record errors: one base class, and messages that say what was found and expected."""

import pytest

from protocol import record_errors as errors


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (errors.CorruptBatch(7, "bad CRC"), "Corrupt record batch at position 7: bad CRC"),
        (errors.InvalidRecord("no key"), "no key"),
        (errors.RecordsWithoutKey([1, 3], 2), "2 record errors in total: Compacted topic cannot"),
        (errors.RecordsWithoutKey([1, 3], 2), "without key, found at 1, 3 of the batch"),
        (errors.RecordsWithoutKey([0, 1, 2], 9), "found at 0, 1, 2, ... of the batch"),
        (errors.UnsupportedCompression(5), "Unknown codec id 5, expected 0 none, 1 gzip, 2 snappy"),
        (errors.DecompressedTooLarge(4, 10, 99), "10 bytes of codec 4 decompress to more than 99"),
        (errors.TooManyRecords("headers", 9, 5), "9 headers, more than the 5 that are looked at"),
        (errors.RecordBatchTooLarge(11, 10), "has 11 bytes, more than the limit of 10"),
    ],
)
def test_text_and_base_class(error, text):
    assert text in str(error)
    assert isinstance(error, errors.RecordError)


def test_every_class_of_the_module_has_the_base_class():
    classes = [thing for thing in vars(errors).values() if isinstance(thing, type)]
    assert len(classes) == 8
    assert all(issubclass(thing, errors.RecordError) for thing in classes)
