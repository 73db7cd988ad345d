"""What the broker says of its listeners at its start: one line each, and warnings for open doors.

    listening on SASL_SSL://0.0.0.0:9093 (TLSv1.2, TLSv1.3; client certificates: none; SASL: PLAIN)

A listener beyond loopback that anybody can use, or that shows passwords or what proves them, is a
WARNING. So is a msgpack listener without logins beside one with them: the same topics are open on
it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from config.broker import BrokerConfig
from config.listeners import Listener

logger = logging.getLogger("barnabas.server")


def say_that_it_listens(config: BrokerConfig, bound: Iterable[tuple[Listener, int]]) -> None:
    """Log each listener with its port, and what is wrong with it."""
    for listener, port in bound:
        described = "; ".join(_described(config, listener))
        logger.info(
            "listening on %(listener)s%(details)s",
            {
                "listener": listener._replace(port=port),
                "details": f" ({described})" if described else "",
                "port": port,
            },
        )
    for warning in warnings_of(config):
        logger.warning("%(warning)s", {"warning": warning})


def _described(config: BrokerConfig, listener: Listener) -> list[str]:
    parts = []
    tls, sasl = config.tls.get(listener.name), config.sasl.get(listener.name)
    if tls is not None:
        parts += [", ".join(tls.enabled_protocols), f"client certificates: {tls.client_auth}"]
    if sasl is not None:
        parts.append(f"SASL: {', '.join(sasl.mechanisms)}")
    return parts


def warnings_of(config: BrokerConfig) -> list[str]:
    """Return what an operator should know of the listeners."""
    warnings = []
    for listener in config.served_listeners:
        if not listener.is_loopback:
            warnings += _beyond_loopback(config, listener)
    if any(_identifies(config, one) for one in config.served_listeners):
        warnings += [
            f"listener {one.name} takes clients of the msgpack dialect without a login, beside"
            " listeners that ask who a client is; use MSGPACK_SASL or MSGPACK_SASL_SSL"
            for one in config.served_listeners
            if one.is_msgpack and not _identifies(config, one)
        ]
    return warnings


def _identifies(config: BrokerConfig, listener: Listener) -> bool:
    """Whether a listener demands to know who its clients are."""
    tls = config.tls.get(listener.name)
    return listener.has_sasl or (tls is not None and tls.client_auth == "required")


def _beyond_loopback(config: BrokerConfig, listener: Listener) -> list[str]:
    name = listener.name
    if listener.has_sasl and not listener.is_encrypted:
        mechanisms = ", ".join(config.sasl[name].mechanisms)
        encrypted = "MSGPACK_SASL_SSL" if listener.is_msgpack else "SASL_SSL"
        reason = "who reads along learns passwords, or can guess them"
        with_sasl = f"with SASL ({mechanisms}) but without encryption"
        return [f"listener {name} is open to the network {with_sasl}: {reason}; use {encrypted}"]
    if _identifies(config, listener):
        return []
    if listener.is_encrypted:
        return [f"listener {name} is open to the network without authentication"]
    return [f"listener {name} is open to the network without encryption or authentication"]
