"""A change of a listener's TLS: its files decide before anything is recorded."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from broker.configs.certificate_change import CertificateChange
from broker.configs.changes import DELETE, SET, Operation, Resource, State, changes_of, tls_after
from broker.metadata.image import CONFIG_BROKER, CONFIG_TOPIC, ClusterImage
from broker.metadata.topic_rules import TopicError
from broker.security.tls.tls_errors import TlsError
from config.load import load
from config.tls_settings import TlsSettings
from protocol.errors import ErrorCode

LISTENERS = "listeners=SSL://127.0.0.1:1,MSGPACK_SSL://127.0.0.1:2,PLAINTEXT://127.0.0.1:3"
KEY = "listener.name.ssl.ssl.key"


class FakeCertificates:
    """Prepares anything but what is called bad."""

    def __init__(self) -> None:
        self.prepared: list[list[str]] = []
        self.used: list[Any] = []

    async def prepare(
        self, settings: Mapping[str, TlsSettings], listeners: Iterable[str]
    ) -> Mapping[str, Any]:
        self.prepared.append(list(listeners))
        found = {name: settings[name].key for name in listeners}
        if "bad.pem" in found.values():
            raise TlsError(f"{KEY}=bad.pem cannot be read: No such file or directory")
        return found

    def use(self, prepared: Any) -> None:
        self.used.append(prepared)


def state(own: dict[str, str] | None = None) -> State:
    image = ClusterImage()
    image.broker_configs = {"1": own or {}, "": {}}
    loaded = load(set_values=[LISTENERS, "ssl.certificate=c.pem", "ssl.key=k.pem"])
    return State(image, 1, loaded.config.topic_defaults, loaded.with_dynamic(own or {}))


def broker(*operations: tuple[str, int, str | None], name: str = "1") -> Resource:
    return Resource(CONFIG_BROKER, name, [Operation(*one) for one in operations])


async def changed(resource: Resource, before: State) -> FakeCertificates:
    certificates = FakeCertificates()
    change = CertificateChange(certificates)
    await change.prepare(resource, before)
    changes_of(resource, before)
    change.check(resource)
    change.use()
    return certificates


async def test_a_listeners_file_is_prepared_and_used() -> None:
    found = await changed(broker((KEY, SET, "new.pem")), state())
    assert found.used == [{"SSL": "new.pem"}]


async def test_the_same_value_again_reads_the_file_again() -> None:
    found = await changed(broker((KEY, SET, "new.pem")), state({KEY: "new.pem"}))
    assert found.used == [{"SSL": "new.pem"}]


def test_a_new_truststore_keeps_what_needs_it() -> None:
    auth, store = "listener.name.ssl.ssl.client.auth", "listener.name.ssl.ssl.truststore.location"
    before = state({auth: "required", store: "old.pem"})
    after = tls_after(broker((store, SET, "new.pem")), before)["SSL"]
    assert after.truststore_location == "new.pem"
    assert after.client_auth == "required"


async def test_a_removed_value_goes_back_to_the_plain_one() -> None:
    found = await changed(broker((KEY, DELETE, None)), state({KEY: "new.pem"}))
    assert found.used == [{"SSL": "k.pem"}]


async def test_a_legacy_request_that_removes_a_value_counts_as_well() -> None:
    everything = Resource(CONFIG_BROKER, "1", [Operation("max.connections", SET, "5")], True)
    found = await changed(everything, state({KEY: "new.pem"}))
    assert found.used == [{"SSL": "k.pem"}]


async def test_a_bad_file_is_the_answer_and_nothing_is_used() -> None:
    certificates = FakeCertificates()
    change = CertificateChange(certificates)
    resource = broker((KEY, SET, "bad.pem"))
    await change.prepare(resource, state())
    with pytest.raises(TopicError, match=r"bad\.pem cannot be read") as caught:
        change.check(resource)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    change.use()
    assert certificates.used == []


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        (broker(("ssl.key", SET, "new.pem")), "Cannot update these configs dynamically"),
        (broker((KEY, SET, "new.pem"), name=""), "Cannot update these configs dynamically"),
        (
            broker(("listener.name.ssl.ssl.principal.mapping.rules", SET, "DEFAULT")),
            "Cannot update these configs dynamically",
        ),
        (broker(("listener.name.ssl.ssl.client.auth", SET, "maybe")), "Invalid value maybe"),
        (
            broker(("listener.name.ssl.ssl.client.auth", SET, "required")),
            "nothing is trusted",
        ),
    ],
)
async def test_other_changes_are_refused(resource: Resource, words: str) -> None:
    with pytest.raises(TopicError, match=words):
        await changed(resource, state())


async def test_other_resources_read_no_files() -> None:
    for resource in (
        Resource(CONFIG_TOPIC, "t", [Operation("retention.ms", SET, "1")]),
        broker(("max.connections", SET, "5")),
    ):
        certificates = FakeCertificates()
        await CertificateChange(certificates).prepare(resource, state())
        assert certificates.prepared == []
    await CertificateChange(None).prepare(broker((KEY, SET, "x")), state())
