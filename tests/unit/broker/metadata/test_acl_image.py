"""ACLs by their records: what exists, who hears of it, and what contradicts it."""

import pytest

from broker.metadata.acl_image import AclImage, says
from broker.metadata.image import ClusterImage
from broker.metadata.image_error import ImageError
from broker.metadata.snapshots import image_records
from protocol.acl_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord

A, B = b"A" * 16, b"B" * 16


def added(acl_id=A, name="orders", operation=3):
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=2,
        resource_name=name,
        pattern_type=3,
        principal="User:alice",
        host="*",
        operation=operation,
        permission_type=3,
    )


def removed(acl_id=A):
    return RemoveAccessControlEntryRecord(id=acl_id)


def image_of(*records):
    image = ClusterImage()
    for record in records:
        image.apply(record)
    return image


def test_an_acl_comes_and_goes():
    image = image_of(added(), added(B, "other"))
    assert list(image.acls.records()) == [added(), added(B, "other")]
    assert image.acls.id_of(added(b"Z" * 16)) == A
    image.apply(removed())
    assert list(image.acls.records()) == [added(B, "other")]
    assert image.acls.id_of(added()) is None
    assert len(image.acls) == 1


def test_an_acl_may_come_again():
    assert list(image_of(added(), removed(), added(B)).acls.records()) == [added(B)]


def test_a_code_of_a_newer_kafka_is_kept():
    assert next(iter(image_of(added(operation=99)).acls.records())).operation == 99


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([added(), added(A, "other")], "two ACLs have the id"),
        ([added(), added(B)], "comes twice"),
        ([removed()], "does not exist"),
        ([added(), removed(), removed()], "does not exist"),
    ],
)
def test_a_contradiction_is_refused(records, words):
    with pytest.raises(ImageError, match=words):
        image_of(*records)


def test_a_listener_hears_what_is_and_what_changes():
    image, heard = image_of(added()), []
    image.acls.listen(lambda record, is_added: heard.append((bytes(record.id), is_added)))
    image.apply(added(B, "other"))
    image.apply(removed())
    assert heard == [(A, True), (B, True), (A, False)]


def test_a_captured_image_stays_as_it_was_and_tells_nobody():
    image, heard = image_of(added()), []
    image.acls.listen(lambda record, is_added: heard.append(record))
    captured = image.capture()
    image.apply(removed())
    image.apply(added(B, "other"))
    assert list(captured.acls.records()) == [added()]
    heard.clear()
    captured.apply(added(b"C" * 16, "third"))
    assert heard == []
    assert len(image.acls) == 1


def test_a_snapshot_holds_them():
    image = image_of(added(), added(B, "other"), removed())
    assert image_records(image) == [added(B, "other")]
    assert says(added()) != says(added(B, "other"))
    assert len(AclImage([added()])) == 1
