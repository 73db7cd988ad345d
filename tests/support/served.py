"""Served APIs, as dialects get them."""

from typing import Any, NamedTuple

from broker.handlers import HANDLERS

SERVED = {int(row.api_key): row for row in HANDLERS}


class Served(NamedTuple):
    """Implements protocol.dialect.ServedApi for any message."""

    api_key: int
    min_version: int
    max_version: int
    request: type[Any]
    response: type[Any]
