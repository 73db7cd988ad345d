"""Why a connection ends whose client is not logged in (`broker.network.logins.sasl_gate`)."""

from __future__ import annotations

from protocol.errors import ProtocolError


class OutOfTurn(ProtocolError):
    """A request that closes the connection, since its client is not logged in."""


class LoginEnded(Exception):
    """Ends a connection whose failed login is counted and logged already."""
