"""From files to contexts: every way to give a certificate, and every file that is refused."""

import asyncio
import builtins
import random
import ssl
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from broker.runtime.blocking_pool import BlockingPool, thread_executor
from broker.runtime.clock import ManualClock
from broker.runtime.metrics import Metrics
from broker.runtime.request import ANONYMOUS
from broker.security.principal_mapping import NoMatchingRule
from broker.security.tls.certificate import read_certificate
from broker.security.tls.cipher_suites import TLS_1_2, TLS_1_3, UnknownSuite, suites_of
from broker.security.tls.der import DerError, object_identifier, parse
from broker.security.tls.pem import PemError, blocks
from broker.security.tls.server_tls import ServerTls, make_server_tls
from broker.security.tls.tls_errors import TlsError
from broker.security.tls.tls_listeners import TlsListeners
from config.load import load
from config.tls_settings import TlsSettings
from tests.support.certificates import DAY, Authority, Issued

SECRET = "marked-secret"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Issued:
    return authority.issue("broker", [("C", "DE"), ("O", "Acme"), ("CN", "broker")])


def settings_of(**values: str) -> TlsSettings:
    given = [f"ssl.{name.replace('_', '.')}={value}" for name, value in values.items()]
    return load(set_values=["listeners=SSL://127.0.0.1:1", *given]).config.tls["SSL"]


def now_ms(days: float = 0) -> int:
    return int((datetime.now(UTC) + days * DAY).timestamp() * 1000)


def made(days: float = 0, **values: str) -> ServerTls:
    return make_server_tls(settings_of(**values), now_ms(days))


def pair(issued: Issued) -> dict[str, str]:
    return {"certificate": issued.chain_file, "key": issued.key_file}


def shaken(server: ServerTls, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Run a handshake in memory; raises SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.context.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    for _ in range(6):
        for side in (theirs, ours):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert theirs.version()
    return ours, theirs


def client_of(authority: Authority, issued: Issued | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.file)
    if issued is not None:
        context.load_cert_chain(issued.chain_file, issued.key_file)
    return context


# -- ways to give a certificate --------------------------------------------------------------------


def test_two_files(authority: Authority, broker: Issued) -> None:
    found = made(**pair(broker))
    assert found.certificate.subject == "CN=broker,O=Acme,C=DE"
    assert [file.path for file in found.files] == [broker.chain_file, broker.key_file]
    assert found.warnings == ()
    shaken(found, client_of(authority))


def test_one_pem_store_in_either_order(
    authority: Authority, broker: Issued, tmp_path: Path
) -> None:
    other = tmp_path / "other.pem"
    other.write_text(f"some text\n{broker.chain}{broker.key}")
    other.chmod(0o600)
    for path in (broker.store_file, str(other)):
        shaken(made(keystore_type="PEM", keystore_location=path), client_of(authority))


def test_values_in_the_configuration(authority: Authority, broker: Issued) -> None:
    values = {
        "keystore_type": "PEM",
        "keystore_key": broker.key.replace("\n", "\\n"),
        "keystore_certificate_chain": broker.chain.replace("\n", " "),
    }
    found = made(**values)
    assert found.files == ()
    shaken(found, client_of(authority))


def test_an_encrypted_key(authority: Authority, broker: Issued, tmp_path: Path) -> None:
    path = tmp_path / "encrypted.key"
    path.write_text(broker.encrypted_key(SECRET))
    values = {"certificate": broker.chain_file, "key": str(path)}
    shaken(made(key_password=SECRET, **values), client_of(authority))
    with pytest.raises(TlsError, match=r"is encrypted: set ssl\.key\.password"):
        made(**values)
    with pytest.raises(TlsError, match=r"is ssl\.key\.password right") as caught:
        made(key_password=f"{SECRET}-wrong", **values)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_pkcs12_store(authority: Authority, broker: Issued, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "store.p12"
    path.write_bytes(broker.pkcs12(SECRET))
    path.chmod(0o600)
    values = {"keystore_type": kind, "keystore_location": str(path)}
    shaken(made(keystore_password=SECRET, **values), client_of(authority))
    for password in ({}, {"keystore_password": f"{SECRET}-wrong"}):
        with pytest.raises(TlsError, match="password is wrong or missing") as caught:
            made(**values, **password)
        assert SECRET not in str(caught.value)


def test_pkcs12_without_the_extra_names_it_and_the_way_without(
    broker: Issued, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.p12"
    path.write_bytes(broker.pkcs12(SECRET))
    imported = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return imported(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(TlsError, match=r"barnabas\[security\].*openssl pkcs12"):
        made(keystore_location=str(path), keystore_password=SECRET)


def test_the_extra_is_not_loaded_for_pem(broker: Issued) -> None:
    program = (
        "import sys; from config.load import load;"
        "from broker.security.tls.server_tls import make_server_tls;"
        f"settings = load(set_values=['listeners=SSL://127.0.0.1:1',"
        f"'ssl.certificate={broker.chain_file}', 'ssl.key={broker.key_file}']).config.tls['SSL'];"
        f"make_server_tls(settings, {now_ms()}); print('cryptography' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


# -- what is refused -------------------------------------------------------------------------------


def refusals(broker: Issued, authority: Authority, tmp_path: Path) -> dict[str, dict[str, str]]:
    def file(name: str, content: bytes | str) -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    other = authority.issue("other")
    damaged = broker.chain.replace("MII", "M**", 1)
    der = blocks(broker.chain)[0].data
    cut = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"
    assert der
    return {
        "cannot be read: No such file": {"certificate": "/missing.pem", "key": broker.key_file},
        "has no certificate": {"certificate": broker.key_file, "key": broker.key_file},
        "has no private key": {"certificate": broker.chain_file, "key": broker.chain_file},
        "does not belong to": {"certificate": broker.chain_file, "key": other.key_file},
        "2 private keys": {"keystore_location": file("two", broker.key * 2 + broker.chain)},
        "keytool -importkeystore": {"keystore_location": file("jks", b"\xfe\xed\xfe\xed\0\0")},
        "neither PEM nor PKCS12": {"keystore_location": file("binary", b"\xff\xfe\xfd")},
        "it is damaged": {"keystore_location": file("p12", b"\x30\x82\0\0")},
        "not base64": {"keystore_location": file("b64", broker.key + damaged)},
        "is damaged: ": {"keystore_location": file("der", broker.key + cut)},
        "is no rule": {**pair(broker), "principal_mapping_rules": "RULE:x"},
        "no cipher suite that is known": {**pair(broker), "cipher_suites": "TLS_NONE"},
        "has no suite for": {
            **pair(broker),
            "cipher_suites": "TLS_AES_128_GCM_SHA256",
            "enabled_protocols": "TLSv1.2",
        },
        "truststore.location=.* cannot be read": {
            **pair(broker),
            "truststore_location": "/missing.pem",
        },
    }


def test_files_and_values_that_cannot_be_used_are_refused_with_a_reason(
    broker: Issued, authority: Authority, tmp_path: Path
) -> None:
    for reason, values in refusals(broker, authority, tmp_path).items():
        with pytest.raises(TlsError, match=reason) as caught:
            made(**values)
        assert "PRIVATE KEY-----" not in str(caught.value)


def test_an_expired_certificate_is_refused_and_an_early_one_is_a_warning(
    authority: Authority,
) -> None:
    old = authority.issue("old", begins=-40, ends=-3)
    with pytest.raises(TlsError, match="expired 3 days ago"):
        made(**pair(old))
    early = authority.issue("early", begins=3)
    assert "is not valid yet" in made(**pair(early)).warnings[0]


def test_a_key_that_others_can_read_is_a_warning(broker: Issued, tmp_path: Path) -> None:
    path = tmp_path / "open.key"
    path.write_text(broker.key)
    path.chmod(0o644)  # as Kubernetes mounts secrets
    (warning,) = made(certificate=broker.chain_file, key=str(path)).warnings
    assert "every user can read it" in warning


def test_damaged_certificates_and_pem_raise_nothing_else(broker: Issued) -> None:
    chance = random.Random(1)
    der = bytearray(broker.der)
    for _ in range(5_000):
        damaged = bytearray(der)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            read_certificate(bytes(damaged[: chance.randrange(len(damaged))]))
            read_certificate(bytes(damaged))
        except DerError:
            pass
    with pytest.raises(PemError):
        blocks("-----BEGIN X-----\n*\n-----END X-----")
    assert blocks("nothing") == []
    for content in (b"", b"\x80"):
        with pytest.raises(DerError):
            object_identifier(content)
    with pytest.raises(DerError):
        parse(b"\x30\x00\x00")


# -- clients ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_client_certificates(authority: Authority, broker: Issued, version: Any) -> None:
    stranger = Authority(authority.directory / "strangers").issue("mallory")
    alice = authority.issue("alice", [("C", "DE"), ("OU", "Sales"), ("CN", "alice")])
    rules = "RULE:^CN=([^,]+),OU=.*$/$1/"
    values = {**pair(broker), "truststore_location": authority.file}

    def principal(client_auth: str, issued: Issued | None) -> str:
        server = made(client_auth=client_auth, principal_mapping_rules=rules, **values)
        client = client_of(authority, issued)
        client.minimum_version = client.maximum_version = version
        ours, _ = shaken(server, client)
        return server.principal_of(ours.getpeercert(binary_form=True))

    assert principal("required", alice) == principal("requested", alice) == "User:alice"
    assert principal("requested", None) == principal("none", alice) == ANONYMOUS
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        principal("required", None)
    for client_auth in ("required", "requested"):
        with pytest.raises(ssl.SSLCertVerificationError):
            principal(client_auth, stranger)
    with pytest.raises(NoMatchingRule):
        principal("required", authority.issue("odd"))


def test_versions_and_cipher_suites(authority: Authority, broker: Issued) -> None:
    newest = made(enabled_protocols="TLSv1.3", **pair(broker))
    older = client_of(authority)
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        shaken(newest, older)
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    chosen = made(cipher_suites=suite, **pair(broker))
    ours, _ = shaken(chosen, client_of(authority))
    assert (ours.version(), ours.cipher()[0]) == ("TLSv1.2", TLS_1_2[suite])  # type: ignore[index]
    both = made(cipher_suites=f"{suite},{TLS_1_3[0]}", **pair(broker))
    assert "cannot be chosen" in both.warnings[0]
    ours, _ = shaken(both, client_of(authority))
    assert ours.version() == "TLSv1.3"


def test_every_suite_of_the_table_is_openssls() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for openssl in TLS_1_2.values():
        context.set_ciphers(openssl)
        assert openssl in [cipher["name"] for cipher in context.get_ciphers()]
    with pytest.raises(UnknownSuite):
        suites_of(["SSL_RSA_WITH_RC4_128_MD5"])


def test_clients_cannot_renegotiate_or_resume(broker: Issued) -> None:
    context = made(**pair(broker)).context
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.options & ssl.OP_NO_COMPRESSION
    assert context.num_tickets == 0


# -- while the broker runs -------------------------------------------------------------------------


class Listeners:
    """The TLS of one listener in a broker that runs."""

    def __init__(self, settings: TlsSettings, pool: BlockingPool) -> None:
        self.metrics = Metrics()
        self.clock = ManualClock(now_ms())
        self.tls = TlsListeners({"SSL": settings}, pool, self.clock, self.metrics)

    @property
    def subject(self) -> str:
        return self.tls.of("SSL").certificate.subject


@pytest.fixture
async def pool() -> Any:
    pool = BlockingPool(thread_executor(1, "tls"), asyncio.get_running_loop())
    yield pool
    pool.close()


def replaced(issued: Issued, by: Issued) -> None:
    Path(issued.chain_file).write_text(by.chain)
    Path(issued.key_file).write_text(by.key)


async def test_a_replaced_file_is_used_for_new_handshakes(
    tmp_path: Path, pool: BlockingPool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    authority = Authority(tmp_path)
    used = authority.issue("used", [("CN", "broker")])
    rig = Listeners(settings_of(**pair(used)), pool)
    before = rig.tls.of("SSL")
    await rig.tls.look()
    assert rig.tls.of("SSL") is before
    replaced(used, authority.issue("renewed", [("CN", "broker")], ends=200))
    await rig.tls.look()
    after = rig.tls.of("SSL")
    assert after.certificate.not_after_ms > before.certificate.not_after_ms
    assert after.context is not before.context
    assert rig.metrics.tls_reloads == 1
    assert "for new connections" in caplog.messages[-1]


def harm(used: Issued, authority: Authority, damage: str) -> None:
    match damage:
        case "garbage":
            Path(used.chain_file).write_text("garbage")
        case "gone":
            Path(used.chain_file).unlink()
        case "mismatch":
            Path(used.key_file).write_text(authority.issue("other").key)
        case "name":
            replaced(used, authority.issue("other", [("CN", "somebody else")]))
        case "hosts":
            replaced(used, authority.issue("other", [("CN", "broker")], hosts=("localhost",)))
        case "expired":
            replaced(used, authority.issue("other", [("CN", "broker")], begins=-9, ends=-1))


@pytest.mark.parametrize("damage", ["garbage", "gone", "mismatch", "name", "hosts", "expired"])
async def test_a_bad_file_keeps_the_current_certificate_and_says_so_once(
    tmp_path: Path, pool: BlockingPool, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    authority = Authority(tmp_path)
    used = authority.issue("used", [("CN", "broker")])
    rig = Listeners(settings_of(**pair(used)), pool)
    before = rig.tls.of("SSL")
    harm(used, authority, damage)
    for _ in range(3):
        await rig.tls.look()
    assert rig.tls.of("SSL") is before
    assert rig.metrics.tls_reload_failures == 1
    (line,) = [message for message in caplog.messages if "keeps its certificate" in message]
    assert "PRIVATE" not in line
    shaken(before, client_of(authority))
    replaced(used, authority.issue("good", [("CN", "broker")]))
    await rig.tls.look()
    assert rig.tls.of("SSL") is not before


async def test_a_hangup_reloads_whether_or_not_files_changed(
    broker: Issued, pool: BlockingPool
) -> None:
    rig = Listeners(settings_of(**pair(broker)), pool)
    before = rig.tls.of("SSL")
    rig.tls.ask_for_reload()
    await rig.tls.look()
    assert rig.tls.of("SSL") is not before
    await rig.tls.look()
    assert rig.metrics.tls_reloads == 1


async def test_settings_are_prepared_before_they_are_used(
    tmp_path: Path, broker: Issued, pool: BlockingPool
) -> None:
    authority = Authority(tmp_path)
    other = authority.issue("other", [("CN", "other")])
    rig = Listeners(settings_of(**pair(broker)), pool)
    with pytest.raises(TlsError, match="DistinguishedName does not match: existing=CN=broker"):
        await rig.tls.prepare({"SSL": settings_of(**pair(other))}, ["SSL"])
    allowed = settings_of(allow_dn_changes="true", **pair(other))
    prepared = await rig.tls.prepare({"SSL": allowed}, ["SSL", "ELSEWHERE"])
    assert rig.subject != "CN=other"
    rig.tls.use(prepared)
    assert rig.subject == "CN=other"


async def test_the_log_warns_of_expiry_once_a_day(
    authority: Authority, pool: BlockingPool, caplog: pytest.LogCaptureFixture
) -> None:
    soon = authority.issue("soon", ends=20.5)
    rig = Listeners(settings_of(**pair(soon)), pool)
    rig.tls.warn_of_expiry()
    assert [line for line in caplog.messages if "expires in 20 days" in line] == caplog.messages
    assert len(caplog.messages) == 1
