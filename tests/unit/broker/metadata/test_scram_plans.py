"""Changes of users: Kafka's codes and texts, one outcome a user, and the keys that are recorded."""

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.metadata.image import ClusterImage
from broker.metadata.scram_plans import (
    BYTES_PER_REQUEST_MAX,
    CHANGES_PER_REQUEST_MAX,
    NAME_BYTES_MAX,
    SALT_BYTES_MAX,
    plan_users,
)
from protocol.messages.alter_user_scram_credentials import (
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tests.unit.broker.metadata.test_scram_image import credential, image_of

TWICE = "A user credential cannot be altered twice in the same request"


def remove(name, mechanism=1):
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def upsert(name, mechanism=1, iterations=4096, salt=b"salt", salted=b"salted"):
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


def outcomes(*changes):
    removals = [one for one in changes if isinstance(one, ScramCredentialDeletion)]
    credentials = [one for one in changes if isinstance(one, ScramCredentialUpsertion)]
    plan = plan_users(
        image_of(credential("alice"), credential("bob", 2)).scram, removals, credentials
    )
    assert len(plan.records) == sum(error is None for error in plan.outcomes.values())
    return {
        name: error and (int(error.code), error.message) for name, error in plan.outcomes.items()
    }


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (remove("alice"), None),
        (remove("alice", 2), (91, "Attempt to delete a user credential that does not exist")),
        (remove("carol"), (91, "Attempt to delete a user credential that does not exist")),
        (remove("alice", 0), (33, "Unknown SCRAM mechanism")),
        (remove("", 0), (93, "Username must not be empty")),
        (upsert("carol"), None),
        (upsert("alice", 2, 16384), None),
        (upsert("carol", salt=b""), None),
        (upsert("carol", salted=b"x"), None),
        (upsert("ü\0\n," * 9), None),
        (upsert("carol", 3), (33, "Unknown SCRAM mechanism")),
        (upsert("", 3), (93, "Username must not be empty")),
        (upsert("carol", iterations=4095), (93, "Too few iterations")),
        (upsert("carol", iterations=-1), (93, "Too few iterations")),
        (upsert("carol", iterations=16385), (93, "Too many iterations")),
        (upsert("carol", salted=b""), (-1, "Salted password must not be empty")),
        (upsert("n" * NAME_BYTES_MAX, salt=b"s" * SALT_BYTES_MAX), None),
        (upsert("carol", salt=b"s" * 1025), (93, "Salt is longer than 1024 bytes")),
        (upsert("ü" * 513), (93, "Username is longer than 1024 bytes")),
    ],
)
def test_the_outcome_of_one_change(change, error):
    assert outcomes(change) == {change.name: error}


@pytest.mark.parametrize(
    "changes",
    [
        [remove("alice"), remove("alice")],
        [remove("alice", 1), remove("alice", 2)],
        [remove("alice"), upsert("alice")],
        [remove("alice"), upsert("alice", 2, 1)],
        [upsert("alice", 1), upsert("alice", 2)],
        [upsert("alice"), upsert("alice"), upsert("alice")],
    ],
)
def test_a_user_named_again_is_not_changed_at_all(changes):
    assert outcomes(*changes, upsert("dora")) == {"alice": (92, TWICE), "dora": None}


def test_the_first_error_of_a_user_stays():
    assert outcomes(remove("carol"), upsert("carol"))["carol"][0] == 91
    assert outcomes(upsert("carol", 7), upsert("carol"))["carol"][0] == 33


def test_one_users_error_keeps_no_other_from_its_change():
    assert outcomes(remove("alice"), remove("x"), upsert("bob", 2), upsert("y", 9)) == {
        "alice": None,
        "x": (91, "Attempt to delete a user credential that does not exist"),
        "bob": None,
        "y": (33, "Unknown SCRAM mechanism"),
    }


def test_the_changes_of_a_request_are_bounded():
    most = [upsert(f"u{number}") for number in range(CHANGES_PER_REQUEST_MAX)]
    assert set(outcomes(*most).values()) == {None}
    refused = outcomes(*most, upsert("one more"))
    assert {code for code, _ in refused.values()} == {44}
    assert len(refused) == CHANGES_PER_REQUEST_MAX + 1
    large = [upsert(f"u{number}", salt=b"s" * 1024) for number in range(CHANGES_PER_REQUEST_MAX)]
    assert {code for code, _ in outcomes(*large).values()} == {44}
    assert BYTES_PER_REQUEST_MAX < CHANGES_PER_REQUEST_MAX * 1024


# RFC 7677, section 3: user "user", password "pencil".
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


def test_the_keys_are_those_of_the_rfc():
    """The client's proof and the server's signature in the RFC come from these keys."""
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", SALT, 4096)
    one = plan_users(image_of().scram, [], [upsert("user", salt=SALT, salted=salted)]).records[0]
    messages = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    signature = hmac_of(one.stored_key, messages)
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client_key = bytes(a ^ b for a, b in zip(signature, proof, strict=True))
    assert hashlib.sha256(client_key).digest() == one.stored_key
    verifier = base64.b64encode(hmac_of(one.server_key, messages))
    assert verifier == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert (one.salt, one.iterations, one.mechanism) == (SALT, 4096, 1)


def hmac_of(key, data):
    block = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block) + data).digest()
    return hashlib.sha256(bytes(byte ^ 0x5C for byte in block) + inner).digest()


CHANGES = st.one_of(
    st.builds(remove, st.sampled_from(["", "a", "b", "c"]), st.integers(0, 3)),
    st.builds(
        upsert,
        st.sampled_from(["", "a", "b", "c"]),
        st.integers(0, 3),
        st.sampled_from([4095, 4096]),
        st.just(b"s"),
        st.sampled_from([b"", b"p"]),
    ),
)


@given(requests=st.lists(st.lists(CHANGES, max_size=4), max_size=5))
def test_records_never_contradict_the_users_they_were_planned_for(requests):
    """Apply each plan: the log is never one that a start would refuse."""
    image = ClusterImage()
    for changes in requests:
        removals = [one for one in changes if isinstance(one, ScramCredentialDeletion)]
        credentials = [one for one in changes if isinstance(one, ScramCredentialUpsertion)]
        plan = plan_users(image.scram, removals, credentials)
        assert plan.outcomes.keys() == {one.name for one in changes}
        assert plan.still_holds(image.scram)
        for record in plan.records:
            image.apply(record)
        for name, error in plan.outcomes.items():
            wanted = [one for one in credentials if one.name == name and error is None]
            assert all(image.scram.has(name, one.mechanism) for one in wanted)


def test_a_plan_is_out_of_date_when_its_credential_is_gone():
    image = image_of(credential("alice"))
    plan = plan_users(image.scram, [remove("alice")], [upsert("bob")])
    assert plan.still_holds(image.scram)
    image.apply(plan_users(image.scram, [remove("alice")], []).records[0])
    assert not plan.still_holds(image.scram)
