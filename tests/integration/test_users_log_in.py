"""Users of SCRAM in a broker of its own: a removed one's connection ends, also one that waits."""

import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support import warm_process
from tests.support.broker_process import BARNABAS, BrokerProcess, free_port


class SaslBroker(BrokerProcess):
    """A broker with a listener for administration, and one on which clients log in."""

    def __init__(self, data: Path, **settings: str) -> None:
        super().__init__(data, settings)
        self.login_address = f"{self.host}:{free_port()}"
        self.settings["listeners"] += f",SASL_PLAINTEXT://{self.login_address}"
        self.settings["sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
        self.settings["barnabas.sasl.plain.users"] = "scram"

    def users(self, *arguments: str, given: str = "secret") -> None:
        command = [*BARNABAS, "users", *arguments, "--bootstrap", self.address]
        done = warm_process.run(command, given=given.encode())
        assert done.returncode == 0, (done.stdout, done.stderr)

    def settings_of(self, user: str, mechanism: str, password: str) -> dict[str, object]:
        return {
            "bootstrap.servers": self.login_address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }

    def may_log_in(self, user: str, mechanism: str, password: str = "secret") -> bool:
        errors: list[KafkaError] = []
        given = {**self.settings_of(user, mechanism, password), "error_cb": errors.append}
        client = AdminClient(given)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                client.list_topics(timeout=1)
            except KafkaException:
                client.poll(0.1)  # hand over the errors
                if any(error.code() == KafkaError._AUTHENTICATION for error in errors):
                    return False
            else:
                return True
        raise AssertionError(f"neither logged in nor refused: {errors}")


def test_users_log_in_as_long_as_they_are_there(tmp_path: Path) -> None:
    with SaslBroker(tmp_path / "data") as broker:
        broker.users("add", "alice", "--password-file", "-")
        assert broker.may_log_in("alice", "SCRAM-SHA-512")
        assert broker.may_log_in("alice", "PLAIN")
        assert not broker.may_log_in("alice", "SCRAM-SHA-256")
        assert not broker.may_log_in("alice", "SCRAM-SHA-512", "wrong")
        broker.users("passwd", "alice", "--password-file", "-", given="new")
        assert not broker.may_log_in("alice", "PLAIN")
        assert broker.may_log_in("alice", "SCRAM-SHA-512", "new")
        broker.kill()
        broker.start()
        assert broker.may_log_in("alice", "PLAIN", "new")
        broker.users("remove", "alice", "--yes")
        assert not broker.may_log_in("alice", "SCRAM-SHA-512", "new")


def was_refused(errors: list[KafkaError]) -> bool:
    return any(one.code() == KafkaError._AUTHENTICATION for one in errors)


def test_the_connections_of_a_removed_user_end(tmp_path: Path) -> None:
    """The consumer waits in a fetch of a minute when its user is removed."""
    with SaslBroker(tmp_path / "data") as broker:
        for user in ("alice", "bob"):
            broker.users("add", user, "--password-file", "-")
        admin = AdminClient({"bootstrap.servers": broker.address})
        for future in admin.create_topics([NewTopic("t", 1, 1)]).values():
            future.result()
        errors: dict[str, list[KafkaError]] = {"alice": [], "bob": []}
        consumers = {}
        for user, mechanism in (("alice", "SCRAM-SHA-512"), ("bob", "PLAIN")):
            consumers[user] = Consumer(
                {
                    **broker.settings_of(user, mechanism, "secret"),
                    "group.id": user,
                    "fetch.wait.max.ms": 60_000,
                    "error_cb": errors[user].append,
                }
            )
            consumers[user].subscribe(["t"])
            consumers[user].poll(2)
        assert errors == {"alice": [], "bob": []}
        broker.users("passwd", "bob", "--password-file", "-", given="new")
        broker.users("remove", "alice", "--yes")
        deadline = time.monotonic() + 60
        while not was_refused(errors["alice"]):  # the first error may be of the lost connection
            assert time.monotonic() < deadline, errors
            for consumer in consumers.values():
                consumer.poll(0.2)
        assert errors["bob"] == [], "a new password ends no connection"
        for consumer in consumers.values():
            consumer.close()
