"""Addresses have one form; networks and names stay text."""

import pytest

from broker.security.acl.acl_hosts import is_address, is_within, network_of, one_form


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("FE80::A", "fe80::a"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("localhost", "localhost"),
        ("010.0.0.1", "010.0.0.1"),
        ("*", "*"),
        ("", ""),
    ],
)
def test_one_form(host, expected):
    assert one_form(host) == expected


@pytest.mark.parametrize(
    ("host", "expected"), [("10.0.0.1", True), ("::1", True), ("10.0.0.0/8", False), ("", False)]
)
def test_an_address(host, expected):
    assert is_address(host) is expected


@pytest.mark.parametrize(
    ("host", "network", "expected"),
    [
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "10.9.9.9/8", True),  # bits behind the mask say nothing
        ("11.1.2.3", "10.0.0.0/8", False),
        ("::ffff:10.1.2.3", "10.0.0.0/8", True),
        ("fe80::1", "fe80::/10", True),
        ("10.1.2.3", "fe80::/10", False),
        ("10.1.2.3", "10.1.2.3", False),
        ("10.1.2.3", "a/b", False),
        ("localhost", "10.0.0.0/8", False),
    ],
)
def test_an_address_in_a_network(host, network, expected):
    assert is_within(host, network) is expected


def test_a_slash_alone_makes_no_network():
    assert network_of("a/b") is None
    assert network_of("10.0.0.1") is None
    assert str(network_of("10.0.0.0/8")) == "10.0.0.0/8"
