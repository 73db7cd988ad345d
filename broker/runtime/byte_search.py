"""Looks for bytes in bytes as `bytes.find` does, while other threads run.

`bytes.find` holds the interpreter, and a thread that looks through a batch would keep the loop from
its turn for as long. The C library's `memmem`, called through ctypes, does not hold it.
"""

from __future__ import annotations

import ctypes
from typing import Any


def _library() -> Any:
    try:
        memmem = ctypes.CDLL(None).memmem
    except (OSError, AttributeError):  # another C library
        return None
    memmem.restype = ctypes.c_void_p
    memmem.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
    return memmem


_memmem: Any = _library()


def has_bytes(found: bytes, needle: bytes, begin: int, end: int) -> bool:
    """Return whether `needle` is in `found[begin:end]`, a range that `found` has. In any thread."""
    size = end - begin
    if not needle or size < len(needle):
        return not needle
    if _memmem is None:
        return found.find(needle, begin, end) >= 0
    at = ctypes.cast(ctypes.c_char_p(found), ctypes.c_void_p).value
    assert at is not None
    assert 0 <= begin <= end <= len(found), (begin, end, len(found))
    return _memmem(at + begin, size, needle, len(needle)) is not None
