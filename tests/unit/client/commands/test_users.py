"""`barnabas users` as users type it, on a directory and on a scripted broker."""

import io

import pytest
from click.testing import CliRunner

from client import cli
from client.commands.users import Place
from client.files.recorded_users import recorded_users
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from tests.support.scripted_broker import ScriptedBroker
from tests.unit.client.kafka.test_users import ANSWERS

SECRET = "MARKED-SECRET"


def run(line, *, given=None, data=None, broker=None):
    arguments = ["users", *line.split()]
    if data is not None:
        arguments += ["--data", str(data)]
    environment = {"BARNABAS_BOOTSTRAP": broker.address} if broker else {}
    done = CliRunner().invoke(cli.main, arguments, input=given, env=environment)
    assert SECRET not in done.output
    return done.exit_code, done.output


@pytest.fixture
def data(tmp_path):
    directory = tmp_path / "data"
    assert run("add alice --password-file -", given=SECRET, data=directory) == (
        0,
        "Added user alice with SCRAM-SHA-512.\n",
    )
    return directory


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("list", 0, "alice  SCRAM-SHA-512        4096"),
        ("list --json", 0, '[{"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 4096}]'),
        ("add alice --password-file -", 1, "User alice has SCRAM-SHA-512 already; `barnabas users"),
        ("add alice --mechanism SCRAM-SHA-256 --password-file -", 0, "with SCRAM-SHA-256."),
        ("add bob --mechanism SCRAM-SHA-1 --password-file -", 2, "Invalid value for '--mechanism'"),
        ("add bob --iterations 100 --password-file -", 2, "4096<=x<=16384"),
        ("add bob", 2, "Not a terminal; pass --password-file"),
        ("add bob --password MARKED", 2, "No such option"),
        ("add bob --password-file /no/such", 2, "/no/such cannot be read: No such file"),
        ("passwd alice --password-file -", 0, "Changed the password of user alice with SCRAM-SHA-"),
        ("passwd bob --password-file -", 1, "There is no user bob; `barnabas users add bob`"),
        ("remove alice", 2, "pass --yes"),
        ("remove alice --dry-run", 0, "Would delete SCRAM-SHA-512 of user alice"),
        ("remove alice --yes", 0, "Deleted 1 credential."),
        ("remove alice --yes --mechanism SCRAM-SHA-256", 1, "no user alice with such a mechanism"),
        ("remove alice bob --yes", 1, "There is no user bob"),
    ],
)
def test_on_a_directory(data, line, code, text):
    exit_code, output = run(line, given=SECRET, data=data)
    assert (exit_code, text in output) == (code, True), output


@pytest.mark.parametrize("given", ["", "\n", "a\nb\n"])
def test_a_password_file_has_one_line(tmp_path, given):
    code, output = run("add bob --password-file -", given=given, data=tmp_path / "data")
    assert code == 2
    assert "expected one line with the password" in output


def test_a_new_password_is_for_all_mechanisms_of_the_user(data):
    run("add alice --mechanism SCRAM-SHA-256 --password-file -", given=SECRET, data=data)
    code, output = run("passwd alice --iterations 8192 --password-file -", given="new", data=data)
    assert (code, output) == (
        0,
        "Changed the password of user alice with SCRAM-SHA-256, SCRAM-SHA-512.\n",
    )
    assert [row.iterations for row in recorded_users(str(data))] == [8192, 8192]


def test_a_password_file_that_others_can_read_is_a_warning(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o644)
    code, output = run(f"add bob --password-file {secret}", data=tmp_path / "data")
    assert code == 0
    assert f"{secret} can be read by every user; `chmod 600 {secret}`" in output
    secret.chmod(0o600)
    assert "chmod" not in run(f"passwd bob --password-file {secret}", data=tmp_path / "data")[1]


def test_on_a_broker():
    with ScriptedBroker(ANSWERS) as broker:
        assert "alice  SCRAM-SHA-256" in run("list", broker=broker)[1]
        assert run("passwd bob --password-file -", given=SECRET, broker=broker)[0] == 0
        assert run("add missing --password-file -", given=SECRET, broker=broker)[0] == 0
        code, output = run("remove alice --yes", broker=broker)
        assert (code, "Deleted 2 credentials." in output) == (0, True)
        code, output = run("passwd nobody-missing --password-file -", given="", broker=broker)
        assert code == 2
        sent = [one for one in broker.requests if isinstance(one, AlterUserScramCredentialsRequest)]
    upserted = [(one.name, one.mechanism) for each in sent for one in each.upsertions]
    assert upserted == [("bob", 1), ("bob", 2), ("missing", 2)]
    assert not any(
        SECRET.encode() in one.salted_password for each in sent for one in each.upsertions
    )


def test_a_terminal_is_asked_twice(monkeypatch, tmp_path):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    asked = []

    def prompt(text, **options):
        asked.append((text, options["hide_input"], options["confirmation_prompt"]))
        return SECRET

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("click.prompt", prompt)
    cli.main(["users", "add", "bob", "--data", str(tmp_path / "d")], standalone_mode=False)
    assert asked == [("Password of bob", True, "Once more")]
    assert [row.user for row in Place("", 1, str(tmp_path / "d")).rows()] == ["bob"]
