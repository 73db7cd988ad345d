"""The users of the image after each record, and what is refused."""

import pytest

from broker.metadata.image import ClusterImage, ImageError
from broker.metadata.snapshots import image_records
from protocol.scram_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord


def credential(name, mechanism=1, salt=b"salt", iterations=4096):
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism,
        salt=salt,
        stored_key=b"stored-" + salt,
        server_key=b"server-" + salt,
        iterations=iterations,
    )


def removal(name, mechanism=1):
    return RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)


def image_of(*records):
    image = ClusterImage()
    for record in records:
        image.apply(record)
    return image


def test_a_credential_is_found_by_mechanism_and_name():
    scram = image_of(credential("alice"), credential("alice", 2, b"other")).scram
    assert scram.credential("SCRAM-SHA-256", "alice").stored_key == b"stored-salt"
    assert scram.credential("SCRAM-SHA-512", "alice").salt == b"other"
    assert scram.credential("SCRAM-SHA-256", "bob") is None
    assert scram.credential("PLAIN", "alice") is None
    assert len(scram) == 1


def test_a_later_credential_replaces_the_first():
    scram = image_of(credential("alice"), credential("alice", salt=b"new", iterations=8192)).scram
    assert scram.credential("SCRAM-SHA-256", "alice").iterations == 8192


def test_the_iterations_of_all_are_known_in_order():
    image = image_of(
        credential("alice", iterations=8192),
        credential("bob"),
        credential("bob", 2),
        credential("eve"),
    )
    assert image.scram.iterations("SCRAM-SHA-256") == [4096, 4096, 8192]
    assert image.scram.iterations("SCRAM-SHA-512") == [4096]
    assert list(image.scram.iterations("PLAIN")) == []
    captured = image.capture().scram
    image.apply(credential("alice", iterations=5000))
    image.apply(removal("bob"))
    assert image.scram.iterations("SCRAM-SHA-256") == [4096, 5000]
    assert captured.iterations("SCRAM-SHA-256") == [4096, 4096, 8192]


def test_a_user_or_credential_that_is_made_again_is_another():
    image = image_of(credential("alice"), credential("alice", 2))
    first = image.scram.generation("alice")
    of_256 = image.scram.generation("alice", "SCRAM-SHA-256")
    of_512 = image.scram.generation("alice", "SCRAM-SHA-512")
    assert len({first, of_256, of_512}) == 3
    image.apply(credential("alice", salt=b"new password"))
    assert image.scram.generation("alice", "SCRAM-SHA-256") == of_256
    image.apply(removal("alice"))
    assert image.scram.generation("alice", "SCRAM-SHA-256") is None
    image.apply(credential("alice"))
    assert image.scram.generation("alice", "SCRAM-SHA-256") not in (None, of_256)
    assert image.scram.generation("alice", "SCRAM-SHA-512") == of_512
    assert image.scram.generation("alice") == first
    for mechanism in (1, 2):
        image.apply(removal("alice", mechanism))
    assert image.scram.generation("alice") is None
    image.apply(credential("alice"))
    assert image.scram.generation("alice") not in (None, first)
    assert image.scram.generation("alice", "PLAIN") is None
    assert image.scram.generation("bob") is None


def test_a_user_is_gone_with_the_last_credential():
    image = image_of(credential("alice"), credential("alice", 2), removal("alice", 1))
    assert image.scram.names() == ["alice"]
    image.apply(removal("alice", 2))
    assert image.scram.names() == []
    assert image.scram.of("alice") == {}


@pytest.mark.parametrize("records", [[], [credential("alice", 2)]])
def test_the_removal_of_a_credential_that_is_not_there_contradicts_the_log(records):
    with pytest.raises(ImageError, match="alice has no credential for mechanism 1"):
        image_of(*records, removal("alice"))


def test_a_captured_image_does_not_change():
    image = image_of(credential("alice"))
    captured = image.capture()
    image.apply(credential("alice", 2))
    image.apply(credential("bob"))
    image.apply(removal("alice"))
    assert list(captured.scram.records()) == [credential("alice")]


def test_records_make_the_same_image():
    records = [credential("alice"), credential("alice", 2, b"other"), credential("bob", 2)]
    image = image_of(*records)
    assert image_records(image) == records
    assert image_records(image_of(*image_records(image))) == records


def test_a_mechanism_of_a_later_kafka_is_kept():
    image = image_of(credential("alice", 7))
    assert image_records(image) == [credential("alice", 7)]
    assert image.scram.credential("SCRAM-SHA-256", "alice") is None


def test_a_credential_shows_no_keys():
    shown = repr(image_of(credential("alice")).scram.of("alice"))
    assert "4096" in shown
    assert "s-" not in shown
    assert "salt" not in shown
