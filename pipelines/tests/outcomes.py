"""A pipeline's end and output, for the message of a test that expected another."""

from __future__ import annotations

import json


def outcome(code, stdout, stderr, *, refused):
    """Return the exit code with the facts, or with the line of the error that was expected."""
    said = f"exit code {code}\n{stdout.getvalue()}\n{stderr.getvalue()}"
    assert stdout.getvalue(), said
    answer = json.loads(stdout.getvalue())
    assert (code != 0) is refused, said
    return code, answer["error"]["text"] if refused else answer
