"""`--grep`: the short cuts over answers and batches find what looking at each record finds."""

import random
import re

import click
import pytest

from client.commands.record_search import RecordSearch, ValueOpener, literal_of
from protocol.records import Record, build

END = 1 << 63
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
        search, raw = RecordSearch(pattern), batch(values, codec)
        found = search.opened(raw, 0, 0, END)
        expected = [
            number
            for number, value in enumerate(values)
            if (value is not None and contains(value))
            or (number % 2 and contains(b"key-%d" % number))
        ]
        assert [record.offset for record in found] == expected, values
        plain = ValueOpener(search).opened(raw, 0, 0, END)
        assert plain == [values[number] or b"" for number in expected], values
        if expected and not codec:
            assert not search.has_nothing(raw)


def test_batches_without_the_pattern_are_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    from client.commands import record_search

    monkeypatch.setattr(record_search, "iterate", None)
    for pattern in ("absent", r"absent\.example", "no.*where"):
        assert RecordSearch(pattern).opened(batch([b"ok"]), 0, 0, END) == []
        assert RecordSearch(pattern).has_nothing(batch([b"ok"]))


def test_other_cases_are_found_if_asked() -> None:
    search = RecordSearch("ERROR", ignore_case=True)
    assert [one.value for one in search.opened(batch([b"an Error"]), 0, 0, END)]


def test_what_is_no_pattern_is_refused() -> None:
    for pattern in ("(", "(?u)x", "(?L)x", "x{99999999999999}"):
        with pytest.raises(click.UsageError, match="no regular expression"):
            RecordSearch(pattern)


@pytest.mark.parametrize("opener", [RecordSearch("v"), ValueOpener(RecordSearch("v"))])
def test_only_records_between_the_offsets_are_returned(opener: RecordSearch | ValueOpener) -> None:
    raw = batch([b"v0", b"v1", b"v2", b"v3"], first=10)
    found = opener.opened(raw, 0, 11, 13)
    assert [getattr(one, "value", one) for one in found] == [b"v1", b"v2"]


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        ("needle[0-9]", "needle"), ("error", "error"), ("err|ok", ""), ("e+rr", "rr"),
        ("ab*c", "a"), ("ab{2}cd", "cd"), ("ab?cde", "cde"), ("ab+cd", "ab"), (r"a\.b", "a.b"),
        (r"\d\d:x", ":x"), ("(abcd)ef", "ef"), ("(a(bc)d)*", ""), ("[]abc]x", "x"), ("", ""),
        (r"[^\]a]yz", "yz"), ("no.*where", "where"), (r"\\\w", "\\"), ("a b-c", "a b-c"),
        (r"(\(x)y", "y"), ("x{,3}", ""), ("ab*?", "a"), ("[(]a(b", "a"),
    ],
)  # fmt: skip
def test_a_pattern_has_a_text_that_each_match_has(pattern: str, literal: str) -> None:
    assert literal_of(pattern).decode() == literal


def test_the_text_is_in_each_match_of_any_pattern() -> None:
    pieces = ["a", "b", "ab", "-", r"\.", "[ab]", "[^]a]", ".", "(ab)", "(a", ")", "|", r"\d", "7"]
    pieces += ["*", "+", "?", "{2}", "{,2}", "*?", "{"]
    chance = random.Random(3)
    matched = 0
    for _ in range(4_000):
        pattern = "".join(chance.choices(pieces, k=chance.randint(1, 6)))
        try:
            compiled = re.compile(pattern.encode())
        except re.error:
            continue
        for _ in range(5):
            text = bytes(chance.choices(b"ab.-7{", k=6))
            for found in compiled.finditer(text):
                matched += 1
                assert literal_of(pattern) in found[0], pattern
    assert matched > 5_000
