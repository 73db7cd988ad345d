"""The keys of log lines."""

from config.load import load
from config.log_line_keys import LogLineKeys


def test_lines_go_to_standard_error_by_default() -> None:
    config = load().config
    assert isinstance(config, LogLineKeys)
    assert (config.barnabas_log_file, config.barnabas_log_format) == (None, "text")


def test_the_level_can_change_while_the_broker_runs() -> None:
    changed = load().with_dynamic({"barnabas.log.level": "DEBUG"})
    assert changed.config.barnabas_log_level == "DEBUG"
