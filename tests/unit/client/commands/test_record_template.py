"""Templates with kcat's letters."""

import click
import pytest

from client.commands.record_template import RecordTemplate
from client.commands.written_records import written_as
from protocol.records import Record

RECORD = Record(7, 1234, b"k", b"v\n", (("a", b"1"), ("b", None)))
NULLS = Record(8, -1, None, None, ())


@pytest.mark.parametrize(
    ("template", "record", "line"),
    [
        ("%T %o %k %v", RECORD, b"1234 7 k v\n\n"),
        (r"%t [%p] %o: %s|\n", RECORD, b"topic [3] 7: v\n|\n"),
        ("%K %S %h", RECORD, b"1 2 a=1,b=NULL\n"),
        ("%K,%S,%k,%s,%h", NULLS, b"-1,-1,,,\n"),
        (r"100%%\t\x41\\\0", NULLS, b"100%\tA\\\0\n"),
        ("%R%s", RECORD, b"\0\0\0\2v\n"),
        ("%R", NULLS, b"\xff\xff\xff\xff"),
        ("größe %o", NULLS, "größe 8\n".encode()),
    ],
)
def test_letters_stand_for_parts_of_a_record(template: str, record: Record, line: bytes) -> None:
    assert RecordTemplate(template, "topic").line(3, record) == line


@pytest.mark.parametrize("template", ["%z", "50%", r"%s\q", "%s\\"])
def test_an_unknown_letter_is_refused(template: str) -> None:
    with pytest.raises(click.UsageError, match="--format"):
        RecordTemplate(template, "topic").line(0, NULLS)


def test_a_misspelt_format_is_refused_with_a_suggestion() -> None:
    with pytest.raises(click.UsageError, match="Did you mean value or key-value"):
        written_as("valu", "topic", "\t")
