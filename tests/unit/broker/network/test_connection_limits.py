"""Connections are counted in and out, by address, with exceptions."""

import pytest

from broker.network.connection_limits import ConnectionLimits


def test_bound_of_all_and_of_one_address() -> None:
    limits = ConnectionLimits(3, 2, {})
    assert limits.admit("10.0.0.1") is None
    assert limits.admit("10.0.0.1") is None
    assert limits.admit("10.0.0.1") == "address already has the configured maximum of 2 connections"
    assert limits.admit("10.0.0.2") is None
    refused = limits.admit("10.0.0.3")
    assert refused is not None
    assert "maximum of 3" in refused
    limits.leave("10.0.0.1")
    assert limits.admit("10.0.0.3") is None
    assert limits.count == 3


@pytest.mark.parametrize(("override", "admitted"), [(0, 0), (1, 1), (5, 5)])
def test_an_address_may_have_its_own_bound(override: int, admitted: int) -> None:
    limits = ConnectionLimits(100, 2, {"10.0.0.9": override})
    assert sum(limits.admit("10.0.0.9") is None for _ in range(10)) == admitted


def test_new_bounds_apply_to_later_connections() -> None:
    limits = ConnectionLimits(1, 1, {})
    assert limits.admit("10.0.0.1") is None
    limits.change(2, 1, {"10.0.0.1": 3})
    assert limits.admit("10.0.0.1") is None
    limits.change(1, 1, {})
    assert limits.admit("10.0.0.2") is not None
    assert limits.count == 2
