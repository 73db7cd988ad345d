"""What an endpoint answers: JSON, or a refusal that says what to do."""

from __future__ import annotations

import json
from typing import Any, Final

from broker.http.http_messages import HttpAnswer

JSON: Final = "application/json; charset=utf-8"


class ConsoleError(Exception):
    """The request cannot be served: an HTTP status, a code for programs, a sentence for people."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


def packed(found: Any) -> bytes:
    """Return JSON in UTF-8, without spaces. Lone surrogates are escaped, so it is always UTF-8."""
    try:
        return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(found, separators=(",", ":")).encode()


def data(found: Any, *headers: tuple[str, str], status: int = 200) -> HttpAnswer:
    """Return an answer in JSON."""
    return HttpAnswer(status, packed(found), JSON, headers)


def data_of_parts(name: str, parts: list[bytes], others: dict[str, Any]) -> HttpAnswer:
    """Return an answer with a list that was packed part by part, in several turns of the loop."""
    return HttpAnswer(200, listed(name, parts, others), JSON)


def listed(name: str, parts: list[bytes], others: dict[str, Any]) -> bytes:
    """Return an object in JSON with a list whose entries are JSON already."""
    return packed(others)[:-1] + b',"' + name.encode() + b'":[' + b",".join(parts) + b"]}"


def refused(
    error: ConsoleError, *headers: tuple[str, str], pause_seconds: float = 0.0
) -> HttpAnswer:
    """Return the answer for a refusal."""
    found = {"error": {"code": error.code, "message": str(error)}}
    return HttpAnswer(error.status, packed(found), JSON, headers, pause_seconds)
