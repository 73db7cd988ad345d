"""The address of the HTTP listener, as `barnabas.http.listener` has it: HOST:PORT, or nothing."""

from __future__ import annotations

from config.errors import ConfigError
from config.listeners import ENDPOINT, Listener

KEY = "barnabas.http.listener"
HTTP = "HTTP"


def parse_http_address(text: str) -> Listener | None:
    """Return the listener, or None if HTTP is off. Raises ConfigError."""
    if not text.strip():
        return None
    match = ENDPOINT.match(f"{HTTP}://{text.strip()}")
    if match is None or int(match["port"]) > 65535:
        raise ConfigError(
            "not an address",
            key=KEY,
            value=text,
            allowed="HOST:PORT, such as 127.0.0.1:9095 or [::1]:9095; nothing turns HTTP off",
        )
    host = match["host"] if match["v6"] is None else match["v6"]
    return Listener(HTTP, HTTP, host, int(match["port"]))
