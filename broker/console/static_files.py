"""The files of the page: read and compressed once, at the first visit.

They are in `page/` beside this module, and a thread reads them. Only their names are served, so no
path of a request is ever a path of the disk.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from broker.http.http_messages import HttpAnswer, HttpRequest, sentence
from broker.runtime.blocking_pool import BlockingPool

DIRECTORY: Final = Path(__file__).parent / "page"
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
CACHED: Final = ("Cache-Control", "no-cache")  # asked for again each time, by its tag
LEVEL: Final = 9


class PageFile(NamedTuple):
    """One file, as it is sent."""

    plain: bytes
    compressed: bytes
    content_type: str
    tag: str


@cache
def files() -> dict[str, PageFile]:
    """Return all files by their path in a request."""
    found = {}
    for path in sorted(DIRECTORY.rglob("*")):
        if path.suffix in TYPES:
            plain = path.read_bytes()
            tag = f'"{hashlib.sha256(plain).hexdigest()[:20]}"'
            name = path.relative_to(DIRECTORY).as_posix()
            where = "/" if name == "index.html" else f"/assets/{name}"
            packed = gzip.compress(plain, LEVEL, mtime=0)
            found[where] = PageFile(plain, packed, TYPES[path.suffix], tag)
    return found


async def answer_to(request: HttpRequest, pool: BlockingPool) -> HttpAnswer:
    """Return a file, or that the browser has it."""
    if request.method not in ("GET", "HEAD"):
        return sentence(405, "This file is for GET, HEAD", ("Allow", "GET, HEAD"))
    found = (await pool.run(files)).get(request.path)
    if found is None:
        return sentence(404, "There is no such file; the page is at /")
    headers = (CACHED, ("ETag", found.tag), ("Vary", "Accept-Encoding"))
    if found.tag in request.headers.get("if-none-match", ""):
        return HttpAnswer(304, b"", found.content_type, headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        packed = (*headers, ("Content-Encoding", "gzip"))
        return HttpAnswer(200, found.compressed, found.content_type, packed)
    return HttpAnswer(200, found.plain, found.content_type, headers)
