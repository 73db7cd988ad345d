"""Parameters of a request: of the query for GET, of a JSON object for POST."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from broker.console.answers import ConsoleError
from broker.http.http_messages import HttpRequest

T = TypeVar("T")
BODY_BYTES_MAX: Final = 64 * 1024  # that are read on the loop: some 4 ms of lists in lists
BRACKETS_MAX: Final = 100_000  # of a body with records, whose texts may have them, too: 16 ms
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")  # no name or text of Kafka's has a lone one


def bad(text: str) -> ConsoleError:
    """Return the refusal of a request that is not as the documentation says."""
    return ConsoleError(400, "BAD_REQUEST", text)


def text_of(request: HttpRequest, name: str, default: str | None = None) -> str:
    """Return a parameter of the query; without `default` it must be there."""
    found = request.query.get(name)
    if found:
        return found[0]
    if default is None:
        raise bad(f"The query has no {name}: add {name}=…")
    return default


def number_of(
    request: HttpRequest, name: str, default: int, least: int = 0, most: int = (1 << 63) - 1
) -> int:
    """Return a whole number of the query, within bounds."""
    text = text_of(request, name, "")
    if not text:
        return default
    digits = text.removeprefix("-")
    if not digits.isdecimal() or not digits.isascii() or len(digits) > 19:
        raise bad(f"{name} is {text[:40]!r}, expected a whole number")
    found = int(text)
    if not least <= found <= most:
        raise bad(f"{name} is {found}, expected {least} to {most}")
    return found


def page_of(request: HttpRequest, default: int, most: int) -> tuple[int, int]:
    """Return where a page of a list begins, and how many entries it has at most."""
    return number_of(request, "offset", 0), number_of(request, "limit", default, 1, most)


def is_set(request: HttpRequest, name: str) -> bool:
    """Return a switch of the query: 1 or true, and nothing else, is on."""
    return text_of(request, name, "") in ("1", "true")


def body_of(request: HttpRequest, bytes_max: int = BODY_BYTES_MAX) -> Mapping[str, Any]:
    """Return the JSON object of the body, which is read at once: so it has bounds."""
    body = request.body
    if len(body) > bytes_max:
        raise ConsoleError(
            413, "TOO_LARGE", f"The body has {len(body)} bytes, at most {bytes_max} are read here"
        )
    if body.count(b"[") + body.count(b"{") > BRACKETS_MAX:
        raise ConsoleError(
            413, "TOO_LARGE", f"The body has more than {BRACKETS_MAX} brackets and braces"
        )
    try:
        found = json.loads(request.body)
        if _SURROGATE.search(request.body):
            packed = json.dumps(found, ensure_ascii=False)
            packed.encode()
    except UnicodeEncodeError:
        raise bad("The body has half a character (a lone surrogate)") from None
    except (ValueError, RecursionError):
        raise bad("The body is not JSON; send an object") from None
    if not isinstance(found, dict):
        raise bad(f"The body is a {type(found).__name__}; send an object")
    return found


def field(body: Mapping[str, Any], name: str, kind: type[T], default: T | None = None) -> T:
    """Return a field of the body, of that type; without `default` it must be there."""
    found = body.get(name, default)
    if found is None:
        raise bad(f"The body has no {name}")
    is_number = kind is int and type(found) is bool  # JSON's true is no number
    if not isinstance(found, kind) or is_number:
        raise bad(f"{name} is {str(found)[:40]!r}, expected {_words(kind)}")
    return found


def int64(body: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """Return a field that is a whole number of 64 bits."""
    found = field(body, name, int, default)
    if not -(1 << 63) <= found < 1 << 63:
        raise bad(f"{name} is {found}, expected a whole number of 64 bits")
    return found


def _words(kind: type[Any]) -> str:
    names = {int: "a whole number", str: "a text", bool: "true or false", list: "a list"}
    return names.get(kind, "an object")
