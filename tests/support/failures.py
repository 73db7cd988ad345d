"""The unexpected failures that the brokers of this process report.

`broker.runtime.owners` logs them, and `broker.dispatch` those that it answers with
UNKNOWN_SERVER_ERROR. This module keeps them, and `tests/conftest.py` fails the test in which one
was reported, unless the test caused it and took the report (`take`).
"""

import logging

NOT_AT_REST = "not at rest at the stop"  # broker.server logs it if the broker still holds state
MARK = "unexpected failure of"  # start of the log line; tests.support.broker_process seeks it


class _Keeper(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        is_answered = record.name == "barnabas.requests" and record.exc_info is not None
        is_failure = record.name == "barnabas.failures" or is_answered
        if not is_failure and NOT_AT_REST not in record.getMessage():
            return
        self.lines.append(logging.Formatter().format(record))


_keeper = _Keeper()
for _name in ("barnabas.failures", "barnabas.requests", "barnabas.server"):
    logging.getLogger(_name).addHandler(_keeper)


def take() -> list[str]:
    """Return the failures reported since the last call, each with its trace."""
    taken = _keeper.lines[:]
    _keeper.lines.clear()
    return taken
