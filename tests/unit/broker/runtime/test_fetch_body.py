"""The answer to a fetch whose client is throttled."""

from dataclasses import replace

from broker.runtime.fetch_body import SessionFetch, withheld
from protocol.messages.fetch import FetchRequest, FetchResponse


class Context:
    view = None

    def withheld(self, response: FetchResponse) -> FetchResponse:
        return FetchResponse(session_id=response.session_id)


def test_without_a_session_nothing_is_left() -> None:
    body = FetchRequest(max_wait_ms=0, min_bytes=0)
    assert withheld(body, FetchResponse(session_id=0, error_code=5)) == FetchResponse(session_id=0)


def test_the_context_decides_and_stays_with_a_narrowed_request() -> None:
    body = SessionFetch(max_wait_ms=0, min_bytes=0, context=Context())
    narrowed = replace(body, topics=[])
    assert type(narrowed) is SessionFetch
    assert withheld(narrowed, FetchResponse(session_id=7)) == FetchResponse(session_id=7)
