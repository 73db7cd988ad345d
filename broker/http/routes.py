"""The pages that the broker serves over HTTP: one row and one module for each.

A page's module is `broker.http.<name>` and has `answer(request, surroundings)`, a plain function
that returns an `HttpAnswer` and does not wait. It is imported with the first request of its page.
The row declares what is checked before: whether `Host` must name this broker
(`broker.http.host_check`), and whether the page is for those with the password
(`broker.http.password_check`). Prometheus and kubelets come by names of services and addresses of
pods, so what they ask for checks no `Host`. Where /metrics is open to everybody, which it is on
loopback alone, its `Host` is checked all the same: a page of another site whose name resolves to
127.0.0.1 could read the names of topics and groups.

The console (`broker.console`) has a table of its own, and checks of its own after that of `Host`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

from broker.http.host_check import is_for_us
from broker.http.http_messages import HttpAnswer, HttpRequest, sentence
from broker.http.password_check import refusal
from config.listeners import Listener

if TYPE_CHECKING:
    from broker.http.surroundings import Surroundings

CONSOLE = ("/api/", "/assets/")  # and /: what begins so belongs to broker.console


class Route:
    """One page: its path, its module, and what a request must have."""

    def __init__(
        self, path: str, name: str, *, checks_host: bool = True, needs_password: bool = True
    ) -> None:
        self.path = path
        self.name = name
        self.checks_host = checks_host
        self.needs_password = needs_password
        self.methods: tuple[str, ...] = ("GET", "HEAD")

    def must_check_host(self, rules: PageRules) -> bool:
        """Whether `Host` must name this broker."""
        is_open = rules.is_private and rules.password is None
        return self.checks_host or (self.needs_password and is_open)

    @cached_property
    def answer(self) -> Callable[[HttpRequest, Surroundings], HttpAnswer]:
        """The function that answers a request."""
        function: Callable[[HttpRequest, Surroundings], HttpAnswer] = import_module(
            f"broker.http.{self.name}"
        ).answer
        return function


ROUTES: tuple[Route, ...] = (
    Route("/metrics", "metrics_page", checks_host=False),
    Route("/healthz", "healthz", checks_host=False, needs_password=False),
    Route("/readyz", "readyz", checks_host=False, needs_password=False),
)


@dataclass(frozen=True, slots=True)
class PageRules:
    """What is checked before a page: the names of this broker, and who may see its pages."""

    names: Collection[str]
    password: str | None
    is_private: bool

    @classmethod
    def of(
        cls, listener: Listener, names: Collection[str], password: str | None, *, is_open: bool
    ) -> PageRules:
        """Return that of a listener; `is_open` says that there is no authorizer."""
        bound = {name.lower() for name in names} | {listener.host.lower()} - {""}
        return cls(bound, password, listener.is_loopback and is_open)


def answer_to(
    request: HttpRequest, surroundings: Surroundings, rules: PageRules
) -> HttpAnswer | Awaitable[HttpAnswer]:
    """Return the answer of the page that was asked for, or why there is none."""
    route = _BY_PATH.get(request.path)
    if (route is None or route.must_check_host(rules)) and not is_for_us(
        request.headers.get("host", ""), request.local_host, rules.names
    ):
        return sentence(
            421, "Host names another server: add the name to barnabas.http.hosts if it is this one"
        )
    if route is None:
        if request.path != "/" and not request.path.startswith(CONSOLE):
            found = ", ".join(sorted(("/", *_BY_PATH)))
            return sentence(404, f"There is no such page; there are {found}")
        answer: HttpAnswer | Awaitable[HttpAnswer]
        answer = import_module("broker.console.door").answer_to(request, surroundings, rules)
        return answer
    if request.method not in route.methods:
        allow = ", ".join(route.methods)
        return sentence(405, f"This page is for {allow}", ("Allow", allow))
    if route.needs_password:
        refused = refusal(request, rules.password, is_private=rules.is_private)
        if refused is not None:
            return refused
    return route.answer(request, surroundings)


_BY_PATH = {route.path: route for route in ROUTES}
