"""`--grep`: the short cut over whole batches finds what looking at each record finds."""

import random
import re

import click
import pytest

from client.commands.record_search import RecordSearch
from protocol.records import Record, build

SIZE_MAX = 1 << 20
VALUES = [b"error: disk full", b"ok", None, b"", b"line\nbreak", b"err", "größe".encode(), b"a$b"]
VALUES += ["ärmel".encode(), b"x.y", "xéy".encode(), b"\xff\xfe", b"back\\slash"]
PATTERNS = [
    "error", "err|ok", "^ok$", "o.?k", r"\berr\b", "(?i)ERROR", r"k\Z", "e+", "e++", "line.break",
    "", "größe", "[^a]", r"a\$b", "(di)sk", "full$", "x{2}", "key-1", "^key-1",
    "[äö]r", "ö?ße", "x.y", r"x\.y", "^gr..e$", "x.*y",
    r"\w{4}$", r"\\.", r"\\\w", ".{2}", "e.+k", r"x\Wy", r"\S\S\Z", r"[\w]+ö",
    r"gr\u00f6\xdfe", r"\xe4r", r"[\xe0-\xff]e", r"\N{LATIN SMALL LETTER E WITH ACUTE}y", r"\344",
    r"\\s",
]  # fmt: skip


def batch(values: list[bytes | None], codec: int = 0, first: int = 0) -> bytes:
    records = [
        Record(number, 1000 + number, b"key-%d" % number if number % 2 else None, value, ())
        for number, value in enumerate(values)
    ]
    return bytes(build(records, codec=codec, base_offset=first))


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("codec", [0, 1, 4])
def test_it_finds_what_a_look_at_each_record_finds(pattern: str, codec: int) -> None:
    compiled = re.compile(pattern, re.ASCII if pattern.isascii() else 0)

    def contains(data: bytes) -> bool:
        return bool(compiled.search(data.decode(errors="surrogateescape")))

    chance = random.Random(pattern)
    for _ in range(30):
        values = [chance.choice(VALUES) for _ in range(chance.randint(1, 3))]
        found = RecordSearch(pattern).records(batch(values, codec), 0, SIZE_MAX)
        expected = [
            number
            for number, value in enumerate(values)
            if (value is not None and contains(value))
            or (number % 2 and contains(b"key-%d" % number))
        ]
        assert [record.offset for record in found] == expected, values


def test_batches_without_the_pattern_are_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    from client.commands import record_search

    monkeypatch.setattr(record_search, "iterate", None)
    for pattern in ("absent", r"absent\.example", "no.*where"):
        assert list(RecordSearch(pattern).records(batch([b"ok"]), 0, SIZE_MAX)) == []


def test_other_cases_are_found_if_asked() -> None:
    search = RecordSearch("ERROR", ignore_case=True)
    assert [one.value for one in search.records(batch([b"an Error"]), 0, SIZE_MAX)]


def test_what_is_no_pattern_is_refused() -> None:
    for pattern in ("(", "(?u)x", "(?L)x", "x{99999999999999}"):
        with pytest.raises(click.UsageError, match="no regular expression"):
            RecordSearch(pattern)
