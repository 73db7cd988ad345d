"""Warnings at the start: what is open, or shut, against what an operator may expect."""

import pytest

from broker.security.acl.open_doors import open_doors
from config.load import load

NAMED = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LOOPBACK = "listeners=PLAINTEXT://127.0.0.1:9092"
WIDE = "listeners=PLAINTEXT://0.0.0.0:9092"
ADMIN = "super.users=User:admin"
NOBODY = "super.users=User:ANONYMOUS"
TLS = ["ssl.certificate=a.pem", "ssl.key=a.key", "ssl.truststore.location=ca.pem"]


def found(*settings, acl_count=0):
    loaded = load(file=None, environment={}, set_values=[NAMED, *settings], data_dir="data")
    return open_doors(loaded.config, acl_count)


@pytest.mark.parametrize(
    "settings",
    [
        [LOOPBACK, ADMIN],
        [WIDE, ADMIN],  # clients without a name have no rights by themselves
        [LOOPBACK, NOBODY],
        ["listeners=SSL://0.0.0.0:9092", *TLS, "ssl.client.auth=required", NOBODY],
        ["listeners=MSGPACK_SSL://0.0.0.0:9094", *TLS, "ssl.client.auth=required", ADMIN],
    ],
)
def test_what_is_as_expected(settings):
    assert found(*settings) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ([WIDE, NOBODY], "listener PLAINTEXT takes clients from the network"),
        (
            ["listeners=SSL://0.0.0.0:9092", *TLS, "ssl.client.auth=requested", NOBODY],
            "listener SSL takes clients",
        ),
        (["listeners=MSGPACK://127.0.0.1:9094", ADMIN], "MSGPACK has no authentication"),
        (["listeners=MSGPACK_SSL://127.0.0.1:9094", *TLS, ADMIN], "MSGPACK_SSL has no"),
        (
            [LOOPBACK, ADMIN, "allow.everyone.if.no.acl.found=true"],
            "what has no ACL",
        ),
        ([LOOPBACK], "super.users is empty"),
        ([LOOPBACK, "super.users=User:*"], "no client's principal"),
        ([LOOPBACK, "super.users=User:admin;Group:ops"], "names Group:ops"),
        ([LOOPBACK, "super.users=User:"], "names User:,"),
    ],
)
def test_what_is_not(settings, words):
    (warning,) = found(*settings)
    assert words in warning


def test_acls_may_replace_super_users():
    assert found(LOOPBACK, acl_count=1) == []


def test_the_default_listeners_leave_the_msgpack_door_open():
    (warning,) = found(ADMIN)
    assert "MSGPACK" in warning
