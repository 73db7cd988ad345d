"""The keys of the authorizer: what is accepted, and how a list of super users is read."""

import pytest

from config.authorizer_keys import STANDARD_AUTHORIZER, parse_super_users
from config.broker import BrokerConfig
from config.errors import ConfigError
from config.keys import keys_of, read_value

KEYS = keys_of(BrokerConfig)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", set()),
        (" ; ;", set()),
        ("User:admin", {"User:admin"}),
        (" User:a ;User:CN=b,O=c; ", {"User:a", "User:CN=b,O=c"}),
        ("User:", {"User:"}),
        ("Group:ops", {"Group:ops"}),
        ("User:a:b", {"User:a:b"}),
        ("User:*", {"User:*"}),  # no wildcard: a client of this name
    ],
)
def test_super_users_are_read_as_kafkas_authorizer_does(text, expected):
    assert parse_super_users(text) == expected


@pytest.mark.parametrize("text", ["alice", "User:a;alice", "User:a,b;c"])
def test_a_super_user_without_type_is_refused(text):
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(super_users=text)
    assert (caught.value.key, caught.value.value) == ("super.users", text)
    assert "User:alice" in caught.value.allowed


@pytest.mark.parametrize("text", ["", STANDARD_AUTHORIZER])
def test_kafkas_authorizer_is_known(text):
    assert read_value(KEYS["authorizer.class.name"], text, "a file") == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("authorizer.class.name", "kafka.security.authorizer.AclAuthorizer"),
        ("authorizer.class.name", "a.b.C"),
        ("allow.everyone.if.no.acl.found", "yes"),
    ],
)
def test_other_values_are_refused(name, text):
    with pytest.raises(ConfigError) as caught:
        read_value(KEYS[name], text, "a file")
    assert caught.value.key == name


def test_nobody_is_super_by_default():
    config = BrokerConfig()
    assert config.super_principals == frozenset()
    assert not config.allow_everyone_if_no_acl_found
    assert config.authorizer_class_name == ""
