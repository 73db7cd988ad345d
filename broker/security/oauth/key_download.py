"""Reading a key set from a file or over HTTP, bounded in size and time. For a thread.

`urllib` bounds each call of a socket, not all of them: a server that sends a byte a second would
hold the thread. So the time is looked at between pieces, and a piece is small. Redirects stay on
HTTP, as `urllib` demands, and no other scheme is opened.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from broker.security.oauth.key_set import KeySetError

BYTES_MAX: Final = 1 << 20
PIECE_BYTES: Final = 8_192
SECONDS_MAX: Final = 10.0


def is_file(url: str) -> bool:
    """Whether a key set is in a file: its URL begins with file:, or it is a path."""
    return urlsplit(url).scheme in ("", "file")


def download(url: str, monotonic_ns: Callable[[], int]) -> bytes:
    """Return what a URL or path holds. Raises KeySetError."""
    try:
        if is_file(url):
            with open(url2pathname(urlsplit(url).path), "rb") as stream:
                data = stream.read(BYTES_MAX + 1)
            _check_size(data)
            return data
        return _downloaded(url, monotonic_ns)
    except urllib.error.HTTPError as error:
        raise KeySetError(f"the server answered {error.code}") from None
    except urllib.error.URLError as error:
        raise KeySetError(f"the server cannot be asked: {error.reason}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise KeySetError(getattr(error, "strerror", None) or type(error).__name__) from None


def _downloaded(url: str, monotonic_ns: Callable[[], int]) -> bytes:
    deadline_ns = monotonic_ns() + int(SECONDS_MAX * 1e9)
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310
    with _opener().open(request, timeout=SECONDS_MAX) as response:
        found = bytearray()
        while piece := response.read1(PIECE_BYTES):
            found += piece
            _check_size(found)
            if monotonic_ns() > deadline_ns:
                raise KeySetError(f"the server took longer than {SECONDS_MAX:.0f} s")
        return bytes(found)


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener for HTTP alone, without cookies, passwords and other schemes."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _check_size(data: bytes | bytearray) -> None:
    if len(data) > BYTES_MAX:
        raise KeySetError(f"it is larger than {BYTES_MAX} bytes")
