"""Each client over each kind of locked listener: administration, writing, reading in a group.

SSL, mutual TLS, and SASL_PLAINTEXT and SASL_SSL with each mechanism. A wrong secret and a wrong
authority are refused, and each client shows words that say so. One broker serves all; the clients
of Java and Go go through all ways in one process.
"""

import gc
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.java_process import compiled
from tests.interop.oracle import kafka
from tests.interop.secure_clients import CLIENTS, SAYING, VALUES, aiokafka_says
from tests.interop.secure_house import MECHANISMS, OAUTHBEARER, House, Way, refusal, secure_house

pytestmark = [
    pytest.mark.interop,
    # The libraries' own: aiokafka leaves its socket open where a login is refused.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

COUNT = 20
GO_PROGRAMS = Path(__file__).parent / "programs" / "franz_go"
NAMES = [
    "tls",
    "mutual",
    *(f"{listener}-{one.lower()}" for listener in ("login", "locked") for one in MECHANISMS),
]
# What each says of a certificate whose issuer it does not know.
UNTRUSTED = {
    "confluent_says": "certificate verify failed",
    "kafka_python_says": "certificate verify failed",
    "aiokafka_says": "CERTIFICATE_VERIFY_FAILED",
    "ours_says": "the certificate of localhost",
}


@pytest.fixture(autouse=True)
def _collect_what_they_leave() -> Iterator[None]:
    """Free the libraries' sockets here, where these warnings are ignored, not in a later test."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with secure_house(tmp_path_factory.mktemp("secure")) as found:
        yield found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_a_client_of_python_is_served(house: House, client: object, name: str) -> None:
    (way,) = (one for one in house.ways() if one.name == name)
    assert callable(client)
    found = client(way, f"{client.__name__}-{name}")
    assert sorted(found) == sorted(VALUES)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("says", SAYING, ids=lambda says: says.__name__)
def test_a_client_of_python_says_that_its_secret_is_wrong(
    house: House, says: object, mechanism: str
) -> None:
    (way,) = (one for one in house.wrong_secrets() if one.mechanism == mechanism)
    assert callable(says)
    said = says(way)
    if says is aiokafka_says and mechanism == OAUTHBEARER:
        assert refusal(mechanism) not in said  # it takes the broker's first answer for a welcome
        return
    assert refusal(mechanism) in said


@pytest.mark.parametrize("says", SAYING, ids=lambda says: says.__name__)
def test_a_client_of_python_says_that_it_does_not_trust_the_broker(
    house: House, says: object
) -> None:
    assert callable(says)
    said = says(house.wrong_authority())
    assert UNTRUSTED[says.__name__] in said, said


def answers(command: list[str], ways: list[Way], **environment: str) -> dict[str, str]:
    """Return what a program prints of each way, without "NAME "."""
    lines = "".join(f"{way.line}\n" for way in ways)
    done = subprocess.run(
        command,
        input=lines.encode(),
        capture_output=True,
        env={**os.environ, **environment},
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    names = {way.name for way in ways}
    parted = (line.partition(" ") for line in done.stdout.decode().splitlines())
    found = {name: rest for name, _, rest in parted if name in names}  # others are of the logger
    assert found.keys() == names, found
    return found


def check(house: House, found: dict[str, str], untrusted: str, token: str) -> None:
    for way in house.ways():
        assert found[way.name] == f"read {COUNT}", way.name
    for way in house.wrong_secrets():
        assert found[way.name].startswith("failed: ")
        expected = token if way.mechanism == OAUTHBEARER else refusal(way.mechanism)
        assert expected in found[way.name]
    assert untrusted in found["stranger"]


def test_the_client_of_java(house: House, tmp_path: Path) -> None:
    kafka.libs()
    java, *rest = compiled("Secured", tmp_path)
    urls = f"file://{house.token},file://{house.wrong_token}"
    prefix = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    allowed = [f"{prefix}.urls={urls}", f"{prefix}.files={house.token},{house.wrong_token}"]
    ways = [*house.ways(), *house.wrong_secrets(), house.wrong_authority()]
    found = answers([java, *allowed, "-Dlog4j2.level=OFF", *rest], ways)
    check(house, found, "SSL handshake failed", "invalid_token")


def test_the_client_of_go(house: House, tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("needs go on the PATH")
    program = str(tmp_path / "secured")
    build = ["go", "build", "-mod=readonly", "-buildvcs=false", "-o", program, "./secured"]
    built = subprocess.run(build, cwd=GO_PROGRAMS, capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(f"franz-go cannot be built: {built.stderr[-300:]}")
    ways = [*house.ways(), *house.wrong_secrets(), house.wrong_authority()]
    refused = "unexpected data in oauth response"  # what it calls the broker's first answer
    check(house, answers([program], ways), "certificate signed by unknown authority", refused)
