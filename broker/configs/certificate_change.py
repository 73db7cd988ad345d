"""A change of a listener's TLS by AlterConfigs: checked against the files before it is recorded.

The files are read in a thread first, since everything after that is one step. As in Kafka, a
request that sets a listener's key to the value it already has reads its files again: that is how
Kafka's tools ask for a reload. The answer says what became of it. What is refused for any other
reason uses nothing of what was prepared, and requests take turns, so that none prepares from keys
that another is about to change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from broker.configs.changes import Resource, State, tls_after
from broker.metadata.image import CONFIG_BROKER
from broker.metadata.topic_rules import TopicError
from broker.security.tls.tls_errors import TlsError
from config.listener_keys import key_behind, split_prefix
from config.tls_settings import TlsSettings
from protocol.errors import ErrorCode


class Certificates(Protocol):
    """The TLS of the listeners (`broker.security.tls.tls_listeners`)."""

    async def prepare(
        self, settings: Mapping[str, TlsSettings], listeners: Iterable[str]
    ) -> Mapping[str, Any]:
        """Make the TLS of some listeners. Raises TlsError."""
        ...

    def use(self, prepared: Any) -> None:
        """Use what was prepared."""
        ...


class CertificateChange:
    """What one request changes, in all its resources."""

    def __init__(self, certificates: Certificates | None) -> None:
        self._certificates = certificates
        self._prepared: dict[int, Mapping[str, Any]] = {}
        self._errors: dict[int, TopicError] = {}

    async def prepare(self, resource: Resource, state: State) -> None:
        """Read the files of the listeners that a resource names or changes."""
        certificates = self._certificates
        if certificates is None or resource.kind != CONFIG_BROKER:
            return
        try:
            settings = tls_after(resource, state)
            named, current = _named(resource), state.loaded.config.tls
            listeners = [
                name for name, one in settings.items() if name in named or one != current[name]
            ]
            if listeners:
                prepared = await certificates.prepare(settings, listeners)
                self._prepared[id(resource)] = prepared
        except TopicError as error:
            self._errors[id(resource)] = error.kept()
        except TlsError as error:
            self._errors[id(resource)] = TopicError(ErrorCode.INVALID_REQUEST, str(error))

    def check(self, resource: Resource) -> None:
        """Raise TopicError if a resource's files cannot be used."""
        error = self._errors.get(id(resource))
        if error is not None:
            raise error

    def refuse(self, resource: Resource) -> None:
        """Forget what was prepared for a resource that is not changed."""
        self._prepared.pop(id(resource), None)

    def use(self) -> None:
        """Use everything that was prepared and not refused, for new connections."""
        for prepared in self._prepared.values():
            assert self._certificates is not None
            self._certificates.use(prepared)


def _named(resource: Resource) -> list[str]:
    """Return the listeners whose keys a request names."""
    prefixed = [one.name for one in resource.operations if key_behind(one.name) is not None]
    return [parts.listener for name in prefixed if (parts := split_prefix(name)) is not None]
