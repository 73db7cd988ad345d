"""Host names are resolved by the system; what is none has no address. Addresses are shown plain."""

import pytest

from broker.network.host_names import address_of_name, plain_address


def test_a_name_of_this_machine() -> None:
    assert address_of_name("localhost") in ("127.0.0.1", "::1")


@pytest.mark.parametrize("name", ["1.2.3.4/8", "x" * 300, "a..b", "\ud800"])
def test_what_is_no_name(name: str) -> None:
    assert address_of_name(name) is None


@pytest.mark.parametrize(
    ("shown", "plain"),
    [
        ("::ffff:10.0.0.1", "10.0.0.1"), ("10.0.0.1", "10.0.0.1"), ("::1", "::1"),
        ("::ffff:0:1", "::ffff:0:1"), ("fe80::1%eth0", "fe80::1%eth0"), ("", ""),
    ],
)  # fmt: skip
def test_an_address_of_ipv4_on_a_socket_for_both_families(shown: str, plain: str) -> None:
    assert plain_address(shown) == plain
