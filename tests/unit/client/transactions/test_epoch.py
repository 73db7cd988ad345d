"""Values of a transaction's requests."""

from client.places import Place
from client.transactions.epoch import Epoch, GroupMetadata, PartitionBatch


def test_an_epoch_is_the_fields_of_a_request():
    assert Epoch("x", 5, 2)._asdict() == {
        "transactional_id": "x",
        "producer_id": 5,
        "producer_epoch": 2,
    }


def test_a_group_without_a_member_is_checked_for_none():
    assert GroupMetadata("g")[1:] == ("", -1, None)
    assert PartitionBatch(Place("t", 0), []).base_sequence == -1
