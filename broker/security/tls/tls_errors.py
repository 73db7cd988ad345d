"""The error of this street: TLS that cannot be set up as it is configured."""

from __future__ import annotations


class TlsError(Exception):
    """A certificate, key or rule that cannot be used.

    Its text names the key of the configuration and the file, what was found, and what to do. It
    never holds a secret.
    """
