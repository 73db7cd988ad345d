"""GET /healthz: 200 as long as the loop runs and answers, also while the broker stops."""

from __future__ import annotations

from broker.http.http_messages import HttpAnswer, HttpRequest, sentence
from broker.http.surroundings import Surroundings


def answer(request: HttpRequest, surroundings: Surroundings) -> HttpAnswer:  # noqa: ARG001
    """Return 200."""
    return sentence(200, "healthy")
