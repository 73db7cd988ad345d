"""The one error of this package: a configuration that cannot be used.

It is raised while values are read, never later: every configuration object is valid. Its parts are
attributes, so that callers and tests compare values instead of sentences.
"""

from __future__ import annotations


class ConfigError(ValueError):
    """A key's value was refused; says key, value, where it came from and what is allowed.

    `key`, `value` and `source` are empty where they do not apply (a file that cannot be read).
    """

    def __init__(
        self, reason: str, *, key: str = "", value: str = "", source: str = "", allowed: str = ""
    ) -> None:
        self.reason = reason
        self.key = key
        self.value = value
        self.source = source
        self.allowed = allowed
        super().__init__(self._text())

    def _text(self) -> str:
        subject = f"{self.key}={self.value}: " if self.key else ""
        origin = f" (from {self.source})" if self.source else ""
        allowed = f"; allowed: {self.allowed}" if self.allowed else ""
        return f"{subject}{self.reason}{allowed}{origin}"
