"""Kafka's audit line for what was denied, at INFO, so that its log analysers read ours.

Behind Kafka's words stands what an operator asks next: which ACL nearly matched, and the command
that would allow it (`broker.security.acl.explanation`).

A client can cause these lines at will, so they are rate-limited; each denied request is counted
whether its line was written or not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from broker.runtime.clock import Clock
from broker.runtime.log_lines import RateLimiter
from broker.runtime.metrics import Metrics
from broker.security.acl.acl_codes import ResourceType
from broker.security.acl.explanation import Explanation
from broker.security.acl.rule import Access, AclDecision

logger = logging.getLogger("barnabas.authorizer")

LINES_PER_SECOND_MAX: Final = 10
NAME_MAX: Final = 300  # characters of a name or principal in a line
_TYPE_NAMES: Final = {
    kind: "".join(map(str.capitalize, kind.name.split("_"))) for kind in ResourceType
}


class Audit:
    """Writes the audit lines of one broker."""

    __slots__ = ("_limiter", "_metrics")

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._limiter = RateLimiter(clock, LINES_PER_SECOND_MAX)
        self._metrics = metrics

    def denied(
        self,
        access: Access,
        decision: AclDecision,
        api: str,
        count: int,
        explain: Callable[[], Explanation],
    ) -> None:
        """Count a denied request, and write its line unless there are too many.

        `explain` is called for a line that is written.
        """
        self._metrics.authorizations_denied += 1
        dropped = self._limiter.allow()
        if dropped is None:
            self._metrics.audit_lines_dropped += 1
            return
        logger.info(
            "Principal = %(principal)s is Denied operation = %(operation)s from host = %(host)s on"
            " resource = %(resource_type)s:LITERAL:%(resource)s for request = %(api)s with"
            " resourceRefCount = %(resource_count)d based on rule %(decision)s%(rule)s%(note)s",
            {
                "principal": _short(access.principal),
                "operation": access.operation.name,
                "host": access.host,
                "resource_type": _TYPE_NAMES[access.resource_type],
                "resource": _short(access.name),
                "api": api,
                "resource_count": count,
                "decision": decision,
                "rule": _words(explain()),
                "note": f" ({dropped} such lines were left out)" if dropped else "",
            },
        )


def _words(explanation: Explanation) -> str:
    """Return what `barnabas acls check` would say, on the same line."""
    near = [f"nearly: {near}" for near in explanation.near]
    parts = [*near, explanation.hint, explanation.remedy and f"to allow it: {explanation.remedy}"]
    return "".join(f"; {_short(part)}" for part in parts if part)


def _short(text: str) -> str:
    return text if len(text) <= NAME_MAX else f"{text[:NAME_MAX]}…"
