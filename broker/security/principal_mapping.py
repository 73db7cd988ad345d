"""`ssl.principal.mapping.rules`: from a certificate's distinguished name to a principal's name.

    RULE:pattern/replacement/[LU]    if the pattern matches the whole name: the replacement, in
                                     lower or upper case if asked
    DEFAULT                          the name itself

The first rule that matches decides; if none does, the client is refused. Patterns are matched by
RE2, whose time is linear (decision 0072): it has no look-around and no back references in patterns,
which Java has. Oddities are Kafka's: the replacement is made for every match within the name, and a
`$3` without a third group stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,\s*|\Z)"
)
_CASES: Final[dict[str, Callable[[str], str]]] = {"": str, "L": str.lower, "U": str.upper}


class RuleError(ValueError):
    """A list of rules that cannot be read."""


class NoMatchingRule(Exception):
    """No rule matches a name: its client has no principal."""


class _Rule(NamedTuple):
    pattern: Any  # RE2's
    replacement: str
    case: str


class PrincipalMapping:
    """The rules of one listener."""

    __slots__ = ("_rules",)

    def __init__(self, text: str) -> None:
        """Read the rules. Raises RuleError."""
        self._rules = _parse(text)

    def name_of(self, distinguished_name: str) -> str:
        """Return the principal's name. Raises NoMatchingRule."""
        for rule in self._rules:
            if rule is None:
                return distinguished_name
            if rule.pattern.fullmatch(distinguished_name) is not None:
                name = rule.pattern.sub(
                    lambda match, rule=rule: _expand(rule.replacement, match), distinguished_name
                )
                return _CASES[rule.case](name)
        raise NoMatchingRule(
            f"no rule of ssl.principal.mapping.rules matches {distinguished_name!r}"
        )


def _parse(text: str) -> list[_Rule | None]:
    rules: list[_Rule | None] = []
    text = text.strip()
    at = 0
    while at < len(text):
        match = _RULE.match(text, at)
        if match is None:
            raise RuleError(
                f"{text[at:]!r} is no rule; expected RULE:pattern/replacement/ with an optional L"
                " or U behind it, or DEFAULT, separated by commas"
            )
        at = match.end()
        if match["default"]:
            rules.append(None)
        else:
            compiled = _compiled(match["pattern"])
            rules.append(_Rule(compiled, match["replacement"], match["case"]))
    return rules or [None]


def _compiled(pattern: str) -> Any:
    import re2  # at the first rule, not at every start

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode() if isinstance(reason, bytes) else reason
        raise RuleError(f"the pattern {pattern!r} cannot be used: {text}") from None


def _expand(replacement: str, match: Any) -> str:
    r"""Return what Java's replaceAll makes of a replacement: `$1` is a group, `\x` is x."""
    count = match.re.groups
    parts: list[str] = []
    at = 0
    while at < len(replacement):
        character = replacement[at]
        at += 1
        if character == "\\" and at < len(replacement):
            parts.append(replacement[at])
            at += 1
        elif character == "$" and replacement[at : at + 1].isdecimal():
            if int(replacement[at]) > count:
                parts.append(character)
                continue
            number = int(replacement[at])
            at += 1
            while replacement[at : at + 1].isdecimal():
                longer = number * 10 + int(replacement[at])
                if longer > count:
                    break
                number = longer
                at += 1
            parts.append(match.group(number) or "")
        else:
            parts.append(character)
    return "".join(parts)
