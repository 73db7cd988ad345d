"""`barnabas quotas` as users type it, on a scripted broker."""

import pytest
from click.testing import CliRunner

from client import cli
from tests.support.scripted_broker import ScriptedBroker
from tests.unit.client.kafka.test_quotas import ANSWERS


def run(line: str, broker: ScriptedBroker | None = None) -> tuple[int, str]:
    environment = {"BARNABAS_BOOTSTRAP": broker.address} if broker else {}
    done = CliRunner().invoke(cli.main, ["quotas", *line.split()], env=environment)
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("list", 0, "user bob, any client id"),
        ("list --json", 0, '{"entity": {"user": "bob", "client-id": null}, "quotas": {"consumer_'),
        ("set --user a request_percentage=0.5", 0, "user a: request_percentage is now 0.5."),
        ("set --any-user --client-id b consumer_byte_rate=9", 0, "any user, client id b: consume"),
        ("set --user a producer_byte_rate=13", 1, "no luck"),
        ("remove --user alice consumer_byte_rate", 0, "consumer_byte_rate is removed; it was 7."),
        ("remove --user alice", 0, "request_percentage is removed; it was 0.5."),
        ("remove --user alice producer_byte_rate", 1, "no producer_byte_rate of user alice."),
        ("remove --user Carol", 1, "There is no quota of user Carol."),
    ],
)
def test_with_a_broker(line: str, code: int, text: str) -> None:
    with ScriptedBroker(ANSWERS) as broker:
        found = run(line, broker)
    assert found[0] == code, found
    assert text in found[1]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("set producer_byte_rate=1", "Whose quota? Give --user"),
        ("remove", "Whose quota? Give --user"),
        ("set --user a", "Missing argument"),
        ("set --user a producer_byte_rate", "expected KEY=NUMBER, above 0"),
        ("set --user a producer_byte_rate=0", "expected KEY=NUMBER, above 0"),
        ("set --user a producer_byte_rate=nan", "expected KEY=NUMBER, above 0"),
        ("set --user a produce=5", "'produce' is no quota"),
        ("remove --user a produce", "'produce' is no quota"),
        ("set --user a --any-user producer_byte_rate=1", "by name and as any"),
    ],
)
def test_mistakes_are_refused_before_a_broker_is_asked(line: str, text: str) -> None:
    code, output = run(line)
    assert code == 2, output
    assert text in output
