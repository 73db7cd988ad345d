"""GET /metrics: all metrics in Prometheus's text format, or those named by `?name[]=`."""

from __future__ import annotations

from broker.exposition.families import all_families
from broker.exposition.scrape_view import ScrapeView
from broker.exposition.text_format import CONTENT_TYPE, written
from broker.http.http_messages import HttpAnswer, HttpRequest
from broker.http.surroundings import Surroundings


def answer(request: HttpRequest, surroundings: Surroundings) -> HttpAnswer:
    """Return the text, as a generator."""
    view = ScrapeView(
        surroundings.assembly,
        surroundings.processors,
        surroundings.pulse,
        lags=surroundings.history.lags,
        is_stopping=surroundings.is_stopping,
    )
    wanted = frozenset(request.query.get("name[]", ()))
    return HttpAnswer(200, written(all_families(view), view, wanted), CONTENT_TYPE)
