"""Make the logins by SASL, and the gates that keep connections closed until one has succeeded.

Nothing of it is imported unless a listener has SASL.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.handlers import HANDLERS
from broker.runtime.log_lines import RateLimiter
from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from storage.files.filenames import MOCK_SALT_SECRET
from storage.files.kept_secret import SECRET_BYTES, kept_secret

if TYPE_CHECKING:
    from broker.network.connection import Connection
    from broker.network.logins.frame_gate import FrameGate, FrameSource
    from broker.security.sasl.sasl_listeners import SaslListeners

logger = logging.getLogger("barnabas.security")


def _sasl(services: Services) -> SaslListeners | None:
    """Import and make the logins by SASL, if a listener has them. Raises KeySetError."""
    config = services.config
    if not config.sasl:
        return None
    from broker.runtime.one_by_one import OneByOne
    from broker.security.oauth.bearer_setup import ValidatorMaker
    from broker.security.sasl.sasl_listeners import SaslListeners

    run = OneByOne(services.pool).run
    maker = ValidatorMaker(services.pool.run, services.clock)
    sasl = SaslListeners(
        config.sasl, services.users, services.random_bytes, run, maker.make, _mock_secret(services)
    )
    maker.is_start = False
    services.configs.settings.listen(lambda changed: sasl.use(changed.sasl))
    return sasl


def _mock_secret(services: Services) -> bytes:
    """Return the secret of mock salts; one of this process if the directory cannot keep it."""
    directory = services.logs.directory
    path = directory.path_of(MOCK_SALT_SECRET)
    try:
        return kept_secret(directory.filesystem, path, services.random_bytes)
    except OSError as error:
        if not services.config.barnabas_read_only:
            logger.warning(
                "%(file)s cannot be read or written: %(error)s; until the next start, the salts of"
                " unknown users are others than before, which tells them from users",
                {"file": path, "error": error.strerror},
            )
        return services.random_bytes(SECRET_BYTES)


def make_gate(services: Services) -> Callable[[Connection, FrameSource], FrameGate] | None:
    """Return what makes the gates of connections, if a listener has SASL."""
    services.sasl = _sasl(services)
    if services.sasl is None:
        return None
    from broker.network.logins.frame_gate import FrameGate
    from broker.network.logins.gated_connection import SaslParts

    rows = {int(row.api_key): row for row in HANDLERS}

    def error_answer(request: Request, code: ErrorCode) -> Any:
        return rows[request.header.api_key].error_response(request, code)

    lines = RateLimiter(services.clock, per_second_max=5)
    parts = SaslParts(
        services.sasl,
        error_answer,
        lines,
        services.metrics,
        services.clock,
        receive_bytes=services.config.socket_receive_buffer_bytes,
    )
    return lambda connection, processor: FrameGate(connection, processor, parts)
