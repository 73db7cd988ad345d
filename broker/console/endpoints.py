"""The table of the JSON API: one row for each endpoint.

The row names the module of `broker.console` and the function in it, which gets the request, its
visitor and the console, and returns an answer or a coroutine of one. It is imported with its first
request. A row with `writes` is for POST and changes something; `is_open` is for those who have not
logged in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

from broker.console.visitor import Visitor
from broker.http.http_messages import HttpAnswer, HttpRequest

if TYPE_CHECKING:
    from broker.console.console import Console

Answer = Callable[[HttpRequest, Visitor, "Console"], HttpAnswer | Awaitable[HttpAnswer]]


class Endpoint:
    """One endpoint."""

    def __init__(
        self, path: str, place: str, *, writes: bool = False, is_open: bool = False
    ) -> None:
        self.path = f"/api/v1/{path}"
        self.place = place
        self.writes = writes
        self.is_open = is_open

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of HTTP that it has."""
        return ("POST",) if self.writes else ("GET", "HEAD")

    @cached_property
    def answer(self) -> Answer:
        """The function that answers."""
        module, name = self.place.split(":")
        function: Answer = getattr(import_module(f"broker.console.{module}"), name)
        return function


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("overview", "overview_api:overview"),
    Endpoint("history", "overview_api:history"),
    Endpoint("events", "overview_api:events"),
    Endpoint("clients", "clients_api:clients"),
    Endpoint("log", "log_api:log"),
)

BY_PATH = {endpoint.path: endpoint for endpoint in ENDPOINTS}
