"""A failed handshake tells its client why.

OpenSSL writes an alert when a handshake fails, but event loops drop it: they close the transport on
the error. Clients then know no more than that the connection ended. So the error is reported to
the one who waits for the handshake, and the loop is told that more data is needed: it sends what
OpenSSL has written. The one who waits ends the connection after that.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextvars import ContextVar

# Set by the task that waits for a handshake; the loop runs its steps in that task's context.
report: ContextVar[Callable[[ssl.SSLError], None]] = ContextVar("report")


class AlertingObject(ssl.SSLObject):
    """The TLS of one connection."""

    def do_handshake(self) -> None:
        """Go on with the handshake, and report its failure if there is one to report to."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            tell = report.get(None)
            if tell is None:
                raise
            tell(error)
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "the alert is sent") from error
