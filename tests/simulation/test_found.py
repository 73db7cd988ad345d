"""Histories that once failed: each plan in `found` is the story of a defect that was mended."""

from pathlib import Path

import pytest

from tests.simulation.history import tell
from tests.simulation.plan import Plan

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


@pytest.mark.parametrize("path", FOUND, ids=[path.stem for path in FOUND])
def test_it_fails_no_more(path: Path) -> None:
    assert tell(Plan.from_json(path.read_text())).failures == []


def test_there_are_some() -> None:
    assert FOUND
