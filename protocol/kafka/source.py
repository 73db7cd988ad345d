"""Python source under construction, and the objects that its names refer to."""

import dataclasses
import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from protocol.wire import ZERO_UUID

_LITERALS = (bool, int, str, bytes, float, type(None))


class GeneratedCode:
    """Lines with their indentation, and the namespace in which they are to run."""

    __slots__ = ("_depth", "_lines", "_numbers", "namespace")

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0
        self._numbers: dict[str, int] = {}
        self.namespace: dict[str, Any] = {}

    def add(self, *lines: str) -> None:
        """Write lines at the current depth."""
        self._lines.extend("    " * self._depth + line for line in lines)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write `head` and indent what is written inside; nothing becomes `pass`."""
        self.add(head)
        self._depth += 1
        line_count = len(self._lines)
        yield
        if len(self._lines) == line_count:
            self.add("pass")
        self._depth -= 1

    def name(self, prefix: str) -> str:
        """Return a variable name that was not given out before: `prefix` and a number."""
        number = self._numbers.get(prefix, 0) + 1
        self._numbers[prefix] = number
        return f"{prefix}{number}"

    def bind(self, name: str, value: Any) -> str:
        """Bind `name` to `value` in the source; return the name."""
        if self.namespace.setdefault(name, value) is not value and self.namespace[name] != value:
            raise TypeError(f"two different things are called {name} in one message")
        return name

    def default_of(self, cls: type[Any], field_name: str) -> str:
        """Return an expression for the default of a field, a new object where it is mutable."""
        declared = next(f for f in dataclasses.fields(cls) if f.name == field_name)
        if declared.default_factory is list:
            return "[]"
        if declared.default == ZERO_UUID:
            return self.bind("ZERO_UUID", ZERO_UUID)
        name = f"default_{cls.__name__}_{field_name}"
        if declared.default_factory is not dataclasses.MISSING:
            return self.bind(name, declared.default_factory) + "()"
        if type(declared.default) in _LITERALS:
            return repr(declared.default)
        return self.bind(name, declared.default)

    def text(self) -> str:
        """Return the page."""
        return "\n".join(self._lines) + "\n"

    def compile(self, filename: str, function: str) -> Any:
        """Run the page and return the function of that name that it defines.

        The page is left in `linecache` under `filename`, so tracebacks and debuggers show it.
        """
        text = self.text()
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self.namespace)  # noqa: S102 - our own text
        return self.namespace[function]
