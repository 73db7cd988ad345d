"""Text that is not UTF-8, read as Java reads it: Kafka replaces wrong bytes and refuses none.

`data.decode("utf-8", JAVA)` returns what `new String(data, UTF_8)` returns: U+FFFD for each longest
beginning of a character, as Python's own "replace" has it, but for surrogates that were encoded as
if they were characters (ED A0..BF): Java takes their two or three bytes for one (held against
OpenJDK with 60,000 strings of hostile bytes).
"""

import codecs
from typing import Final

JAVA: Final = "java"  # the name of the error handler

_REPLACEMENT = "\ufffd"
_SURROGATE_LEAD = 0xED


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, start, end = error.object, error.start, error.end
    if data[start] == _SURROGATE_LEAD and b"\xa0" <= data[start + 1 : start + 2] <= b"\xbf":
        end = start + 2
        if end < len(data) and 0x80 <= data[end] <= 0xBF:
            end += 1
    return _REPLACEMENT, end


codecs.register_error(JAVA, _replace)
