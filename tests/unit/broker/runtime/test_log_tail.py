"""The newest lines of the log."""

import logging

from broker.runtime.log_tail import CHARACTERS_MAX, LINES_MAX, LogTail


def test_the_newest_lines_are_kept() -> None:
    tail = LogTail()
    tail.attach()
    logger = logging.getLogger("barnabas.server")
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        for number in range(LINES_MAX + 10):
            logger.info("line %d", number)
        logger.info("%s\n\u202e", "x" * 10_000)
        tail.handle(logging.LogRecord("barnabas", logging.INFO, "", 0, "%d", ("no number",), None))
        try:
            raise ValueError("a reason")
        except ValueError:
            logger.exception("failed")
    finally:
        logger.setLevel(level)
        tail.detach()
    logger.warning("unheard")
    lines = tail.after(0)
    assert len(lines) == LINES_MAX
    assert lines[-1].message == "failed"
    assert "ValueError: a reason" in lines[-1].trace
    assert len(lines[-2].message) == CHARACTERS_MAX
    assert lines[0].number == lines[-1].number - LINES_MAX + 1
    assert tail.after(lines[-2].number) == [lines[-1]]
