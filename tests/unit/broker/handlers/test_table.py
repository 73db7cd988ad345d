"""The table of APIs imports nothing before it is needed."""

import subprocess
import sys

from broker.handlers import HANDLERS
from protocol.api_keys import ApiKey
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

STARTED = """
import sys
import broker.server
print(*sorted(name for name in sys.modules if name.startswith("broker.handlers.")))
"""


def test_a_row_finds_its_handler_by_name() -> None:
    row = next(row for row in HANDLERS if row.api_key == ApiKey.LIST_GROUPS)
    row.load()
    assert (row.request, row.response) == (ListGroupsRequest, ListGroupsResponse)
    handling = sys.modules["broker.handlers.list_groups"]
    assert (row.handle, row.error_response) == (handling.handle, handling.error_response)


def test_a_start_imports_no_handler() -> None:
    done = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, check=True)
    assert done.stdout == b"\n", done.stdout
