"""A share of the cases of `tests.support.security_fuzz`: no crash, and never an accepted login."""

import random

import pytest

from tests.support.security_fuzz import KINDS
from tests.support.thorough import THOROUGH

CASES = 20_000 if THOROUGH else 300


@pytest.mark.parametrize("kind", KINDS)
def test_what_strangers_send_is_refused(kind: str) -> None:
    assert sum(1 for _ in KINDS[kind](random.Random(7), CASES)) >= CASES
