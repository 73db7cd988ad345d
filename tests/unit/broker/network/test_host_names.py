"""Host names are resolved by the system; what is none has no address."""

import pytest

from broker.network.host_names import address_of_name


def test_a_name_of_this_machine() -> None:
    assert address_of_name("localhost") in ("127.0.0.1", "::1")


@pytest.mark.parametrize("name", ["1.2.3.4/8", "x" * 300, "a..b", "\ud800"])
def test_what_is_no_name(name: str) -> None:
    assert address_of_name(name) is None
