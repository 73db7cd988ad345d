"""JAAS strings: how Kafka's server.properties give a mechanism its users and options.

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="admin" password="admin-secret" user_alice="alice-secret";

A login module, a control flag, options and a semicolon, with Java's quotes, escapes and comments,
as Kafka's JaasConfig reads them. An error never shows a value: it may be a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

FLAGS: Final = ("required", "requisite", "sufficient", "optional")
FORM: Final = 'MODULE required KEY="VALUE" …;'

_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/)
        |(?P<quoted>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
        |(?P<word>[A-Za-z_$\u00a0-\uffff][A-Za-z0-9_$.\-\u00a0-\uffff]*)
        |(?P<sign>[=;])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPES: Final = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
}


class JaasError(ValueError):
    """Text that is no JAAS string; says what was expected, and shows no value."""


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """A login module and its options, which hold secrets."""

    module: str
    options: dict[str, str] = field(repr=False)


def parse_jaas(text: str) -> JaasEntry:
    """Return the one login module of a JAAS string. Raises JaasError."""
    tokens = _tokens(text)
    kind, module = next(tokens, ("", ""))
    if kind != "word":
        raise JaasError("found no login module at its beginning")
    _, flag = next(tokens, ("", ""))
    if flag.lower() not in FLAGS:
        raise JaasError(f"found no control flag behind the login module, such as {FLAGS[0]}")
    options: dict[str, str] = {}
    for sort, name in tokens:
        if (sort, name) == ("sign", ";"):
            if next(tokens, None) is not None:
                raise JaasError("found more than one login module; expected one")
            return JaasEntry(module, options)
        if sort == "sign" or next(tokens, ("", ""))[1] != "=":
            raise JaasError(f"found an option without a value{_after(options)}")
        kind, value = next(tokens, ("", ""))
        if kind not in ("word", "quoted"):
            raise JaasError(f"found an option without a value{_after(options)}")
        options[name] = value
    raise JaasError("found no semicolon at its end")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            before = text.count("\n", 0, position)
            line = f" of line {before + 1}" if before else ""
            column = position - text.rfind("\n", 0, position)
            raise JaasError(
                f"cannot read it from character {column}{line} on: values need quotes,"
                " and each quote its end"
            )
        position = found.end()
        kind = found.lastgroup or ""
        if kind == "quoted":
            yield kind, _ESCAPE.sub(_unescaped, found[0][1:-1])
        elif kind != "blank":
            yield kind, found[0]


def _unescaped(found: re.Match[str]) -> str:
    escape = found[1]
    if escape[0] in "01234567":
        return chr(int(escape, 8))
    return _ESCAPES.get(escape, escape)


def _after(options: dict[str, str]) -> str:
    """Say where an option was expected; by number, since a missing quote makes a value a name."""
    return f" behind option {len(options)}" if options else ""
