"""What producers ask in transactions, and Kafka's answers: ids, partitions, batches, ends."""

from __future__ import annotations

from typing import Any, Final

from tests.interop.transaction_requests import (
    OFFSETS_TOPIC,
    STATE_TOPIC,
    UNCOMMITTED,
    until,
)
from tests.interop.transaction_table import Cases
from tests.interop.transactor import Transactor

CASES: Final = Cases()
case = CASES.case


# --- InitProducerId --------------------------------------------------------------------------


@case(["e+0", "e+1", "e+2"])
def a_new_id_and_its_next_epochs(t: Transactor) -> Any:
    return [t.init(), t.init(version=2), t.init(version=0)]


@case(["INVALID_REQUEST"] * 3)
def no_id_at_all(t: Transactor) -> Any:
    nobody = t.beside("")
    return [nobody.init(), nobody.init(version=0), nobody.init(version=3)]


@case(["INVALID_TRANSACTION_TIMEOUT"] * 3 + ["e+0", "e+1"])
def timeouts_that_are_not_allowed(t: Transactor) -> Any:
    return [t.init(timeout_ms=ms) for ms in (0, -1, 900_001, 1, 900_000)]


@case(
    [
        "e+0",
        "e+1",
        "e+1",
        *["PRODUCER_FENCED"] * 2,
        "INVALID_PRODUCER_EPOCH",
        "PRODUCER_FENCED",
        "e+2",
    ]
)
def an_id_that_says_what_it_had(t: Transactor) -> Any:
    """The current epoch gets the next one; the one before the current one: a retry."""
    first = t.init()
    pid, epoch = t.having()
    return [
        first,
        t.init(having=(pid, epoch)),
        t.init(having=(pid, epoch)),
        t.init(having=(pid, epoch + 5)),
        t.init(having=(pid, 0) if epoch > 1 else (pid, epoch + 9)),
        t.init(version=3, having=(pid, epoch + 5)),
        t.init(having=(pid + 1000, epoch + 1)),
        t.init(having=(pid, epoch + 1)),
    ]


@case(["e+0", 0])
def an_unknown_id_that_says_what_it_had(t: Transactor) -> Any:
    """It has expired, perhaps: it gets a new producer id."""
    return [t.init(having=(7_000_000, 3)), t.epoch]


@case(["e+0", "e+2", ([], 2, 2, [0])])
def a_second_instance_ends_the_first_ones_transaction(t: Transactor) -> Any:
    first = t.init()
    t.produce()
    twin = t.twin()
    twin.told(*t.having())
    return [first, twin.init(), t.read()]


@case(["INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "PRODUCER_FENCED", "PRODUCER_FENCED"])
def a_fenced_producer(t: Transactor) -> Any:
    t.init()
    t.produce()
    t.twin().init()
    return [t.produce(), t.end(), t.end("abort"), t.add()]


# --- ids and epochs that are not the producer's ----------------------------------------------


@case(["INVALID_REQUEST"] * 7)
def an_empty_id(t: Transactor) -> Any:
    t.init()
    nobody = t.beside("")
    nobody.producer_id, nobody.epoch = t.having()
    return [
        nobody.add(),
        nobody.add(version=5),
        nobody.add_offsets(),
        nobody.end(),
        nobody.commit_offset(),
        nobody.describe()[0],
        t.produce(transactional_id=""),
    ]


@case(["INVALID_PRODUCER_ID_MAPPING"] * 5 + ["TRANSACTIONAL_ID_NOT_FOUND"])
def an_unknown_id(t: Transactor) -> Any:
    t.init()
    nobody = t.beside("nobody")
    nobody.producer_id, nobody.epoch = t.having()
    return [
        nobody.add(),
        nobody.add_offsets(),
        nobody.end(),
        nobody.commit_offset(),
        nobody.produce(),
        nobody.describe()[0],
    ]


@case(["INVALID_PRODUCER_ID_MAPPING"] * 6)
def the_producer_id_of_another(t: Transactor) -> Any:
    t.init()
    return [
        t.add(producer_id=1000),
        t.add(version=5, producer_id=1000),
        t.add_offsets(producer_id=1000),
        t.end(producer_id=1000),
        t.commit_offset(producer_id=1000),
        t.produce(producer_id=t.producer_id + 1000),
    ]


def _at_epoch(t: Transactor, epoch: int) -> Any:
    t.init()
    t.init()
    t.produce()
    return {
        "produce": [t.produce(version, epoch=epoch) for version in (8, 11, 12)],
        "add": [t.add(version=version, epoch=epoch) for version in (0, 1, 2, 3, 5)],
        "add offsets": [t.add_offsets(version, epoch=epoch) for version in (1, 2, 4)],
        "commit offset": [t.commit_offset(version, epoch=epoch) for version in (2, 3, 4, 5)],
        "end": [t.end(version=version, epoch=epoch) for version in (1, 2, 4, 5)],
    }


WRONG_EPOCH = {
    "produce": ["INVALID_PRODUCER_EPOCH"] * 3,
    "add": ["INVALID_PRODUCER_EPOCH"] * 2 + ["PRODUCER_FENCED"] * 3,
    "add offsets": ["INVALID_PRODUCER_EPOCH"] + ["PRODUCER_FENCED"] * 2,
    "commit offset": ["INVALID_PRODUCER_EPOCH"] * 4,
    "end": ["INVALID_PRODUCER_EPOCH"] + ["PRODUCER_FENCED"] * 3,
}


@case(WRONG_EPOCH)
def an_epoch_that_is_over(t: Transactor) -> Any:
    return _at_epoch(t, -1)


@case(WRONG_EPOCH)
def an_epoch_to_come(t: Transactor) -> Any:
    return _at_epoch(t, 1)


# --- partitions of a transaction -------------------------------------------------------------


@case(["INVALID_TXN_STATE"] * 2 + ["TRANSACTION_ABORTABLE", ("NONE", 0)])
def a_partition_that_was_never_added(t: Transactor) -> Any:
    t.init()
    return [t.produce(8), t.produce(10), t.produce(11), t.produce(12)]


@case(["INVALID_TXN_STATE"] * 2 + ["TRANSACTION_ABORTABLE", "NONE"])
def a_group_that_was_never_added(t: Transactor) -> Any:
    t.init()
    return [t.commit_offset(version) for version in (2, 3, 4, 5)]


@case(
    ["TRANSACTION_ABORTABLE", "NONE", "NONE", {"own-0": "NONE", "own-1": "TRANSACTION_ABORTABLE"}]
)
def verification_for_another_broker(t: Transactor) -> Any:
    t.init()
    return [
        t.add(version=5, verify_only=True),
        t.add(version=5),
        t.add(version=5, verify_only=True),
        t.add(0, 1, version=5, verify_only=True),
    ]


@case(
    [
        {"missing-0": "UNKNOWN_TOPIC_OR_PARTITION", "own-0": "OPERATION_NOT_ATTEMPTED"},
        {"own-0": "OPERATION_NOT_ATTEMPTED", "own-9": "UNKNOWN_TOPIC_OR_PARTITION"},
        ("Empty", "e+0", False, {}),
    ]
)
def one_partition_of_many_is_unknown(t: Transactor) -> Any:
    t.init()
    return [t.add(also={"missing": [0]}), t.add(0, 9), t.describe()]


@case(["TOPIC_AUTHORIZATION_FAILED"] * 2)
def internal_topics_are_added_by_name(t: Transactor) -> Any:
    t.init()
    return [t.add(topic=OFFSETS_TOPIC), t.add(topic=STATE_TOPIC)]


@case(["NONE", "NONE", ("Ongoing", "e+0", True, {"own": [0, 1]})])
def a_partition_is_added_twice(t: Transactor) -> Any:
    t.init()
    return [t.add(0, 1), t.add(1), t.describe()]


@case(
    [*["UNKNOWN_SERVER_ERROR"] * 6, "NONE", "UNKNOWN_SERVER_ERROR", "Ongoing"],
    ours=[*["UNKNOWN_SERVER_ERROR"] * 6, "NONE", "e+1", "CompleteCommit"],
)
def more_than_fits_into_a_record(t: Transactor) -> Any:
    """Kafka can neither commit nor abort what was added before the bound was lowered."""
    t.init()
    found: list[Any] = []
    with t.bounded_states(100):
        found += [t.add(), t.add(version=5), t.add_offsets(), t.commit_offset(), t.produce()]
        found.append(t.init())
    found.append(t.add())
    with t.bounded_states(100):
        found.append(t.end())
        t.rest()
        return [*found, t.state_name()]


# --- batches ---------------------------------------------------------------------------------


@case(["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"] * 2)
def a_transactional_batch_without_an_id(t: Transactor) -> Any:
    t.init()
    return [t.produce(12, transactional_id=None), t.produce(8, transactional_id=None)]


@case([("NONE", 0), "NONE"], ours=["INVALID_RECORD", "NONE"])
def a_transactional_batch_without_a_producer(t: Transactor) -> Any:
    """Kafka stores it with the flag, in no transaction that could ever end."""
    t.init()
    return [t.produce(producer_id=-1), t.add()]


@case([("NONE", 0), ([b"v"], 1, 1, [])])
def a_plain_batch_of_a_transactional_producer(t: Transactor) -> Any:
    t.init()
    return [t.produce(transactional=False), t.read()]


@case(["INVALID_RECORD", "INVALID_RECORD"])
def a_control_batch(t: Transactor) -> Any:
    t.init()
    return [t.produce(control=True), t.produce(control=True, transactional=False)]


@case(["OUT_OF_ORDER_SEQUENCE_NUMBER", ("NONE", 0), "OUT_OF_ORDER_SEQUENCE_NUMBER"])
def sequences_with_a_gap(t: Transactor) -> Any:
    t.init()
    return [t.produce(sequence=3), t.produce(), t.produce(sequence=5)]


@case([("NONE", 0), "OUT_OF_ORDER_SEQUENCE_NUMBER", ("NONE", 1)])
def sequences_with_a_gap_of_an_older_client(t: Transactor) -> Any:
    t.init()
    t.add()
    return [t.produce(8, sequence=3), t.produce(8, sequence=6), t.produce(8, sequence=4)]


@case([("NONE", 0), ("NONE", 1), ("NONE", 0), ([b"v", b"v"], 3, 3, [])])
def a_batch_again(t: Transactor) -> Any:
    t.init()
    answers = [t.produce(), t.produce(), t.produce(sequence=0)]
    t.end()
    t.rest()
    return [*answers, t.read()]


@case([("NONE", 0), "INVALID_PRODUCER_EPOCH", ("NONE", 2)])
def a_batch_of_the_transaction_before(t: Transactor) -> Any:
    t.init()
    first = t.produce()
    t.end()
    t.rest()
    return [first, t.produce(epoch=-1, sequence=1), t.produce()]


@case([("NONE", 0), ("NONE", 2), ("NONE", 3)])
def sequences_go_on_behind_an_older_clients_end(t: Transactor) -> Any:
    t.init()
    t.add()
    first = t.produce(8)
    t.end(version=3)
    t.rest()
    t.add()
    return [first, t.produce(8), t.produce(8)]


@case([("NONE", 0), ([], 1, 0, []), ([b"v"], 2, 2, [])])
def acknowledged_by_the_leader(t: Transactor) -> Any:
    t.init()
    answers = [t.produce(acks=1)]
    assert t.offset_at(isolation=UNCOMMITTED) == 1  # waits until the record can be read
    answers.append(t.read())
    t.end()
    t.rest()
    return [*answers, t.read()]


@case("INVALID_TOPIC_EXCEPTION")
def a_batch_into_the_state_topic(t: Transactor) -> Any:
    return t.produce(topic=STATE_TOPIC, transactional_id=None, transactional=False, producer_id=-1)


# --- EndTxn ----------------------------------------------------------------------------------


@case(["INVALID_TXN_STATE", "e+1", "INVALID_TXN_STATE", ("CompleteAbort", "e+1", False, {})])
def the_end_of_nothing(t: Transactor) -> Any:
    t.init()
    answers = [t.end()]
    answers.append(t.end("abort"))
    t.rest()
    answers.append(t.end())
    state, ids, _, partitions = t.describe()
    return [*answers, (state, ids, False, partitions)]


@case(["INVALID_TXN_STATE"] * 4)
def the_end_of_nothing_by_an_older_client(t: Transactor) -> Any:
    t.init()
    return [t.end("commit", 3), t.end("abort", 3), t.end("commit", 4), t.end("abort", 4)]


@case(["e+1", "e+1", "INVALID_TXN_STATE", "INVALID_TXN_STATE", "e+2"])
def a_commit_again(t: Transactor) -> Any:
    t.init()
    t.produce()
    first = t.end()
    t.rest()
    again = [t.end(epoch=-1, keep=False), t.end("abort", epoch=-1)]
    again.append(t.end())
    return [first, *again, t.end("abort")]


@case(["e+1", "e+1", "INVALID_TXN_STATE", "INVALID_TXN_STATE"])
def an_abort_again(t: Transactor) -> Any:
    t.init()
    t.produce()
    first = t.end("abort")
    t.rest()
    return [first, t.end("abort", epoch=-1, keep=False), t.end(epoch=-1), t.end()]


@case(["NONE", "NONE", "INVALID_TXN_STATE", "NONE", "NONE", "INVALID_TXN_STATE"])
def an_older_clients_ends_again(t: Transactor) -> Any:
    t.init()
    answers = []
    for outcome, other in (("commit", "abort"), ("abort", "commit")):
        t.add()
        answers.append(t.end(outcome, 3))
        t.rest()
        answers += [t.end(outcome, 3), t.end(other, 3)]
    return answers


@case(["e+1", "NONE", "e+2", ("CompleteCommit", "e+2", {})])
def both_kinds_of_clients_in_turn(t: Transactor) -> Any:
    t.init()
    t.produce()
    answers = [t.end()]
    t.rest()
    t.add()
    answers.append(t.end(version=3))
    t.rest()
    t.produce()
    answers.append(t.end())
    t.rest()
    state, ids, _, partitions = t.describe()
    return [*answers, (state, ids, partitions)]


@case(["NONE", "e+1"])
def added_by_an_older_request_ended_by_a_newer(t: Transactor) -> Any:
    t.init()
    return [t.add(), t.end()]


@case([("NONE", 0), "CompleteAbort", "INVALID_TXN_STATE", "INVALID_PRODUCER_EPOCH", "e+1", "e+2"])
def a_transaction_that_takes_too_long(t: Transactor) -> Any:
    t.init(timeout_ms=100)
    produced = t.produce()
    until(lambda: t.state_name() == "CompleteAbort", "the transaction's timeout")
    had = t.having()
    return [
        produced,
        t.state_name(),
        t.end(),
        t.produce(),
        t.end("abort"),
        t.init(having=had) if t.having() == had else t.init(),
    ]


@case(["CompleteAbort", "e+1", ("NONE", 2)])
def recovery_from_a_timeout_by_the_old_ids(t: Transactor) -> Any:
    t.init(timeout_ms=100)
    t.produce()
    until(lambda: t.state_name() == "CompleteAbort", "the transaction's timeout")
    return [t.state_name(), t.init(having=t.having()), t.produce()]
