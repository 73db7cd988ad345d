"""What is known of a name: whether it is a key, whether it changes, and whether it hides."""

import pytest

from config.keys import Update
from config.known_keys import is_known, is_secret, known_names, update_mode


@pytest.mark.parametrize(
    ("name", "is_hidden"),
    [
        ("ssl.key.password", True),
        ("barnabas.http.password", True),
        ("listener.name.x.plain.sasl.jaas.config", True),
        ("listener.name.x.ssl.keystore.key", True),
        ("listener.name.x.ssl.keystore.location", False),
        ("num.partitions", False),
        ("nothing", False),
    ],
)
def test_a_secret_is_known_by_its_name(name: str, is_hidden: bool) -> None:
    assert is_secret(name) is is_hidden


def test_no_key_is_taken_for_the_file_of_another() -> None:
    """A variable with _FILE behind a secret's name is always that file."""
    ending = [name for name in known_names() if name.endswith(".file")]
    assert not [name for name in ending if is_secret(name.removesuffix(".file"))]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("num.partitions", True),
        ("config.providers.x.class", True),
        ("config.providers.x.param.a.b", True),
        ("config.providers.x", False),
        ("config.providers.x.klass", False),
        ("listener.name.x.ssl.client.auth", True),
        ("num.partition", False),
    ],
)
def test_what_is_a_key(name: str, known: bool) -> None:
    assert is_known(name) is known


def test_a_key_of_a_listener_changes_for_it_alone() -> None:
    assert update_mode("listener.name.x.ssl.keystore.location") is Update.PER_BROKER
    assert update_mode("ssl.keystore.location") is Update.READ_ONLY
    assert update_mode("config.providers") is Update.READ_ONLY
    assert update_mode("nothing") is None
