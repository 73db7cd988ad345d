"""Client quotas of the image: set, removed, captured, and written as records again."""

import random

from broker.metadata.quota_image import QuotaImage, quota_entity, quota_record
from broker.metadata.records_io import decode_record, encode_record
from broker.metadata.snapshots import image_records
from protocol.metadata_records import ProducerIdsRecord
from protocol.quota_records import ClientQuotaRecord
from tests.unit.broker.metadata.test_image import image_of

ALICE = quota_entity([("user", "alice")])
BOTH = quota_entity([("user", "alice"), ("client-id", None)])


def test_the_order_of_an_entity_does_not_matter_and_the_last_of_a_type_counts() -> None:
    assert quota_entity([("client-id", None), ("user", "alice")]) == BOTH
    assert quota_entity([("user", "x"), ("user", "alice")]) == ALICE
    assert quota_entity([("user", None)]) != quota_entity([("user", "")])


def test_a_quota_is_set_changed_and_removed_and_an_empty_entity_goes() -> None:
    image = QuotaImage()
    for entity, key, value in (
        (ALICE, "producer_byte_rate", 10.0),
        (ALICE, "request_percentage", 0.5),
        (ALICE, "producer_byte_rate", 20.0),
        (BOTH, "producer_byte_rate", 1.0),
    ):
        image.apply(quota_record(entity, key, value))
    assert image.entities[ALICE] == {"producer_byte_rate": 20.0, "request_percentage": 0.5}
    image.apply(quota_record(BOTH, "producer_byte_rate", None))
    image.apply(quota_record(BOTH, "producer_byte_rate", None))  # of no entity any more
    image.apply(quota_record(ALICE, "consumer_byte_rate", None))  # that it has not
    assert list(image.entities) == [ALICE]


def test_many_records_taken_together_change_it_as_one_after_the_other() -> None:
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
    source = random.Random(5)
    one, together = QuotaImage(), QuotaImage()
    for _ in range(50):
        records = [
            quota_record(source.choice((ALICE, BOTH)), source.choice(keys), value)
            for value in source.choices((None, None, 1.0, 2.0), k=source.randrange(6))
        ]
        before = together.capture()
        changed = together.changed(records)
        assert together.entities == before.entities
        together.take(changed)
        for record in records:
            one.apply(record)
        assert together.entities == one.entities


def test_a_capture_stays_as_it_was() -> None:
    image = QuotaImage()
    image.apply(quota_record(ALICE, "producer_byte_rate", 10.0))
    captured = image.capture()
    image.apply(quota_record(ALICE, "producer_byte_rate", 20.0))
    image.apply(quota_record(BOTH, "producer_byte_rate", 1.0))
    assert captured.entities == {ALICE: {"producer_byte_rate": 10.0}}


def test_its_records_make_it_again_and_stand_before_the_producer_ids_in_a_snapshot() -> None:
    records = [
        quota_record(ALICE, "producer_byte_rate", 10.0),
        quota_record(BOTH, "consumer_byte_rate", 2.0),
    ]
    image = image_of(*records, ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=7))
    written = image_records(image)
    assert [type(record) for record in written] == [
        ClientQuotaRecord,
        ClientQuotaRecord,
        ProducerIdsRecord,
    ]
    again = image_of(*(decode_record(encode_record(record)) for record in written))
    assert again.quotas.entities == image.quotas.entities
    assert image.capture().quotas.entities == image.quotas.entities
