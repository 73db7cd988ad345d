"""The address of the HTTP listener."""

import pytest

from config.errors import ConfigError
from config.http_address import parse_http_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9095", "127.0.0.1", 9095), (" localhost:0 ", "localhost", 0),
        (":9095", "", 9095), ("[::1]:80", "::1", 80), ("0.0.0.0:65535", "0.0.0.0", 65535),
    ],
)  # fmt: skip
def test_an_address_is_a_host_and_a_port(text, host, port):
    found = parse_http_address(text)
    assert found is not None
    assert (found.host, found.port) == (host, port)


@pytest.mark.parametrize("text", ["", "  "])
def test_nothing_turns_http_off(text):
    assert parse_http_address(text) is None


@pytest.mark.parametrize(
    "text", ["9095", "localhost", "localhost:", "a:1:2", "http://x:1", "x:65536", "x:-1", "a b:1"]
)
def test_anything_else_is_refused(text):
    with pytest.raises(ConfigError, match="HOST:PORT"):
        parse_http_address(text)
