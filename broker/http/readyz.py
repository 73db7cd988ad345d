"""GET /readyz: 200 when clients can be served, 503 once the broker stops.

The listener opens after recovery, so a broker that recovers refuses the connection.
"""

from __future__ import annotations

from broker.http.http_messages import HttpAnswer, HttpRequest, sentence
from broker.http.surroundings import Surroundings


def answer(request: HttpRequest, surroundings: Surroundings) -> HttpAnswer:  # noqa: ARG001
    """Return 200 or 503."""
    if surroundings.is_stopping:
        return sentence(503, "stopping")
    return sentence(200, "ready")
