"""The table of the JSON API: one row for each endpoint.

The row names the module of `broker.console` and the function in it, which gets the request, its
visitor and the console, and returns an answer or a coroutine of one. It is imported with its first
request. A row with `writes` is for POST and changes something.
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

    def __init__(self, path: str, place: str, *, writes: bool = False) -> None:
        self.path = f"/api/v1/{path}"
        self.place = place
        self.writes = writes

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
    Endpoint("client-metrics", "client_metrics_api:client_metrics"),
    Endpoint("log", "log_api:log"),
    Endpoint("topics", "topics_api:topics"),
    Endpoint("topic", "topics_api:topic"),
    Endpoint("topics/create", "topics_api:create", writes=True),
    Endpoint("topics/delete", "topics_api:delete", writes=True),
    Endpoint("messages", "messages_api:messages"),
    Endpoint("message", "messages_api:message"),
    Endpoint("export", "messages_api:export"),
    Endpoint("tail", "messages_api:tail"),
    Endpoint("messages/produce", "produce_api:produce", writes=True),
    Endpoint("messages/import", "produce_api:import_records", writes=True),
    Endpoint("groups", "groups_api:groups"),
    Endpoint("group", "groups_api:group"),
    Endpoint("groups/reset", "groups_api:reset", writes=True),
    Endpoint("groups/delete", "groups_api:delete", writes=True),
    Endpoint("configs", "configs_api:configs"),
    Endpoint("configs/alter", "configs_api:alter", writes=True),
    Endpoint("disk", "storage_api:disk"),
    Endpoint("transactions", "transactions_api:transactions"),
    Endpoint("users", "transactions_api:users"),
)

BY_PATH = {endpoint.path: endpoint for endpoint in ENDPOINTS}
