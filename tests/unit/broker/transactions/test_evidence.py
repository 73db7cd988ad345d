"""What the logs say of transactions, by producer id."""

from broker.transactions.evidence import Evidence, OpenPart, ProducerEvidence


def test_an_unknown_producer_has_nothing():
    evidence = Evidence({7: ProducerEvidence([OpenPart(("t", 0), 1, 5)])}, frozenset({("t", 0)}))
    assert evidence.of(7).open == [OpenPart(("t", 0), 1, 5)]
    assert evidence.of(8) == ProducerEvidence()
