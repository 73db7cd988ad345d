"""docs/security.md has the rights as they are declared."""

from pathlib import Path

from broker.handlers import HANDLERS
from broker.rights.page import rights_table

PAGE = Path(__file__).parents[4] / "docs" / "security.md"


def test_the_page_has_the_table() -> None:
    """Where it differs, replace it by what `rights_table(HANDLERS)` returns."""
    assert rights_table(HANDLERS) in PAGE.read_text()


def test_each_api_is_in_the_table() -> None:
    table = rights_table(HANDLERS)
    assert "| ApiVersions | none | clients send it before they authenticate |" in table
    assert table.count("\n| ") - table.count("\n|  |") == len(HANDLERS) + 0
