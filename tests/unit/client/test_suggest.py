"""Suggestions for misspelt names."""

import pytest

from client.suggest import did_you_mean

KNOWN = ["retention.ms", "retention.bytes", "cleanup.policy"]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("clenup.policy", "Did you mean cleanup.policy?"),
        ("retention.m", "Did you mean retention.ms or retention.bytes?"),
        ("zzz", ""),
        ("", ""),
    ],
)
def test_suggestions(name, wanted):
    assert did_you_mean(name, KNOWN) == wanted
    assert did_you_mean(name, []) == ""
