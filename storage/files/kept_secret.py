"""A secret of the data directory: random bytes in a file, made once.

The file has the mode of the others (0640): those who may read the directory may read its metadata
log, which says more. What is made with the secret is the same after a restart, and for a copy of
the directory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from storage.files.filesystem import FileSystem

SECRET_BYTES: Final = 32


def kept_secret(filesystem: FileSystem, path: str, random_bytes: Callable[[int], bytes]) -> bytes:
    """Return the secret in a file; make it if it is missing or damaged. Raises OSError."""
    if filesystem.exists(path):
        kept = filesystem.read(path)
        if len(kept) == SECRET_BYTES:
            return kept
    secret = random_bytes(SECRET_BYTES)
    filesystem.replace(path, secret)
    return secret
