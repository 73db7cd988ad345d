"""The TLS of all listeners, and how it changes while the broker runs.

Three things make a listener's TLS anew, always for new handshakes only; open connections stay:

    a file changed      looked for once a second (`look`)
    SIGHUP              every listener (`ask_for_reload`, then `look`)
    a configuration     IncrementalAlterConfigs of a listener's keys (`prepare`, then `use`)

It is made in a thread, completely, before it replaces the current one. If it cannot be made, the
current one stays: a reload says so in the log, a request gets the reason as its answer. As in
Kafka, a certificate that replaces another has the same distinguished name and keeps its alternative
names, unless `ssl.allow.dn.changes` and `ssl.allow.san.changes` say otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.clock import Clock
from broker.runtime.metrics import Metrics
from broker.security.tls.key_material import stamp_of
from broker.security.tls.server_tls import ServerTls, make_server_tls
from broker.security.tls.tls_errors import TlsError
from config.tls_settings import TlsSettings

logger = logging.getLogger("barnabas.security")

DAY_MS: Final = 86_400_000
EXPIRY_WARNING_DAYS: Final = 30

Prepared = dict[str, ServerTls]


class TlsListeners:
    """The current TLS of each listener that has one, by name."""

    def __init__(
        self,
        settings: Mapping[str, TlsSettings],
        pool: BlockingPool,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        """Read all files; to be called before the broker listens. Raises TlsError."""
        self._pool = pool
        self._clock = clock
        self._metrics = metrics
        self._refused: dict[str, object] = {}  # stamps of files that could not be used
        self._told_day: dict[str, int] = {}
        self._is_asked = False
        now_ms = clock.now_ms()
        self._current = {name: make_server_tls(one, now_ms) for name, one in settings.items()}
        for found in self._current.values():
            _tell(found)
        self.warn_of_expiry()

    def of(self, listener: str) -> ServerTls:
        """Return the TLS for a new handshake."""
        return self._current[listener]

    # -- by a request ----------------------------------------------------------------------------

    async def prepare(
        self, settings: Mapping[str, TlsSettings], listeners: Iterable[str]
    ) -> Prepared:
        """Make the TLS of some listeners by changed settings. Raises TlsError."""
        wanted = [settings[name] for name in listeners if name in self._current]
        made: Prepared = await self._pool.run(partial(self._make_all, wanted))
        return made

    def _make_all(self, wanted: Iterable[TlsSettings]) -> Prepared:
        """Make what is to replace the current ones. For a thread."""
        now_ms = self._clock.now_ms()
        found: Prepared = {}
        for settings in wanted:
            made = make_server_tls(settings, now_ms)
            _check_replaces(self._current[settings.listener], made)
            found[settings.listener] = made
        return found

    def use(self, prepared: Prepared) -> None:
        """Use what was prepared for all handshakes from now on."""
        for name, made in prepared.items():
            self._current[name] = made
            self._refused.pop(name, None)
            self._metrics.tls_reloads += 1
            _tell(made)
            logger.info(
                "listener %(listener)s uses the certificate of %(file)s for new connections"
                " (subject %(subject)s)",
                {"listener": name, "file": made.place, "subject": made.certificate.subject},
            )

    # -- by the files ----------------------------------------------------------------------------

    def ask_for_reload(self) -> None:
        """Reload every listener at the next look, whether or not its files changed."""
        self._is_asked = True

    async def look(self) -> None:
        """Reload the listeners whose files were replaced since they were read, or all if asked."""
        if self._is_asked:
            self._is_asked = False
            self._refused.clear()
            await self._reload(list(self._current))
        else:
            await self._reload(await self._pool.run(self._changed))
        self.warn_of_expiry()

    def _changed(self) -> list[str]:
        """Return the listeners with other files than were read. For a thread."""
        changed = []
        for name, found in self._current.items():
            stamps = tuple(stamp_of(file.path) for file in found.files)
            # A file that could not be used is tried again when it changes again.
            if stamps != found.files and stamps != self._refused.get(name):
                self._refused[name] = stamps
                changed.append(name)
        return changed

    async def _reload(self, listeners: Iterable[str]) -> None:
        for name in listeners:
            settings = self._current[name].settings
            try:
                prepared = await self._pool.run(partial(self._make_all, [settings]))
            except TlsError as error:
                self._metrics.tls_reload_failures += 1
                logger.error(
                    "listener %(listener)s keeps its certificate, since the new one cannot be"
                    " used: %(error)s",
                    {"listener": name, "error": error},
                )
            else:
                if self._current[name].settings == settings:  # no request came in between
                    self.use(prepared)

    def warn_of_expiry(self) -> None:
        """Warn once a day of certificates that expire within 30 days."""
        now_ms = self._clock.now_ms()
        for name, found in self._current.items():
            days = (found.certificate.not_after_ms - now_ms) // DAY_MS
            if days < EXPIRY_WARNING_DAYS and self._told_day.get(name) != now_ms // DAY_MS:
                self._told_day[name] = now_ms // DAY_MS
                logger.warning(
                    "the certificate of listener %(listener)s expires in %(days)d days: replace"
                    " %(file)s",
                    {"listener": name, "days": days, "file": found.place},
                )


def _tell(found: ServerTls) -> None:
    for warning in found.warnings:
        logger.warning(
            "listener %(listener)s: %(warning)s",
            {"listener": found.settings.listener, "warning": warning},
        )


def _check_replaces(before: ServerTls, after: ServerTls) -> None:
    """Raise TlsError if a certificate is one for somebody else."""
    settings, old, new = after.settings, before.certificate, after.certificate
    if old.subject != new.subject and not settings.allow_dn_changes:
        raise TlsError(
            f"{after.place}: Keystore DistinguishedName does not match: existing={old.subject}"
            f" new={new.subject}; {settings.name_of('ssl.allow.dn.changes')}=true allows it"
        )
    if not old.alternative_names <= new.alternative_names and not settings.allow_san_changes:
        raise TlsError(
            f"{after.place}: Keystore SubjectAltNames do not match: the new certificate lacks"
            f" {len(old.alternative_names - new.alternative_names)} names of the current one;"
            f" {settings.name_of('ssl.allow.san.changes')}=true allows it"
        )
