"""Invalid UTF-8 is replaced as in Java; the expected texts are OpenJDK's."""

import pytest

from protocol.java_text import JAVA

BAD = "\ufffd"
CASES = {
    "valid": ("aé☃😀".encode(), "aé☃😀"),
    "a byte that begins nothing": (b"a\xffb", f"a{BAD}b"),
    "a continuation alone": (b"\x80", BAD),
    "overlong NUL": (b"\xc0\x80", BAD * 2),
    "overlong, three bytes": (b"\xe0\x80\x80", BAD * 3),
    "cut": (b"\xe4\xb8", BAD),
    "cut, four bytes": (b"\xf0\x9f\x98", BAD),
    "interrupted": (b"\xe4\xb8A", f"{BAD}A"),
    "surrogate": (b"\xed\xa0\x80", BAD),
    "surrogate pair": (b"\xed\xa0\x80\xed\xb0\x80", BAD * 2),
    "surrogate, cut": (b"\xed\xa0", BAD),
    "surrogate, interrupted": (b"\xed\xa0A", f"{BAD}A"),
    "beyond the last": (b"\xf5\x80\x80\x80", BAD * 4),
}


@pytest.mark.parametrize("case", CASES)
def test_as_java(case: str) -> None:
    data, text = CASES[case]
    assert data.decode("utf-8", JAVA) == text


def test_the_replacement_is_for_reading_only() -> None:
    with pytest.raises(UnicodeEncodeError):
        "\ud800".encode("utf-8", JAVA)
