"""One blocking client of a broker's HTTP listener: its JSON API and /metrics.

Every failure is a BrokerError whose sentence says what to do. Answers are bounded; each request has
a connection of its own, since a command sends few.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from typing import Any, Final
from urllib.parse import urlencode

from client.kafka.connection import BrokerError

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
UNAUTHORIZED, FORBIDDEN, OK = 401, 403, 200


class BrokerHttp:
    """A broker's HTTP listener at `address`, asked with `password` if there is one."""

    def __init__(self, address: str, timeout_s: float, password: str | None = None) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._password = password

    def json(self, path: str, **parameters: object) -> Any:
        """Return what GET /api/v1/<path> answers. Raises BrokerError."""
        body = self._get(f"/api/v1/{path}", parameters)
        try:
            return json.loads(body)
        except ValueError as error:
            raise BrokerError(f"{self.address} answers no JSON at {path}: {error}") from error

    def metrics(self, names: Sequence[str] = ()) -> str:
        """Return /metrics, or those with these names. Raises BrokerError."""
        return self._get("/metrics", {"name[]": list(names)}).decode("utf-8", "replace")

    def _get(self, path: str, parameters: Mapping[str, object]) -> bytes:
        asked = f"{path}?{urlencode(parameters, doseq=True)}" if parameters else path
        try:
            connection = HTTPConnection(self.address, timeout=self._timeout_s)
            try:
                connection.request("GET", asked, headers=self._headers())
                answer = connection.getresponse()
                body = answer.read(ANSWER_BYTES_MAX + 1)
            finally:
                connection.close()
        except (OSError, HTTPException, ValueError) as error:
            raise BrokerError(
                f"{self.address} does not answer HTTP ({error}); --http names another address,"
                " barnabas.http.listener of the broker"
            ) from error
        if len(body) > ANSWER_BYTES_MAX:
            raise BrokerError(f"{self.address} answers more than {ANSWER_BYTES_MAX} bytes")
        if answer.status != OK:
            raise BrokerError(self._refusal(answer.status, body))
        return body

    def _headers(self) -> dict[str, str]:
        if self._password is None:
            return {}
        pair = base64.b64encode(f"barnabas:{self._password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}

    def _refusal(self, status: int, body: bytes) -> str:
        text = body[:1000].decode("utf-8", "replace").strip()
        with suppress(ValueError, KeyError, TypeError):
            text = json.loads(text)["error"]["message"]
        hint = ""
        if status in (UNAUTHORIZED, FORBIDDEN):
            hint = "; BARNABAS_HTTP_PASSWORD is the place for barnabas.http.password"
        return f"{self.address} answers {status}: {text}{hint}"
