"""The judge of the history objects to a broken log, and excuses only what a flip explains."""

import hashlib

from tests.simulation.judges.history import Flipped, WholeLog, judge, parted
from tests.simulation.record import Corrupt, Lookup, Record, Unserved
from tests.support.history_checker import FAIL, INFO, OK, Anomaly, Poll, Send
from tests.support.log_ledger import HIGH_WATERMARK, START, SeenBatch

KEY = ("t", 0)
SECOND = 1_000_000_000


def value(number):
    return b"value-%d" % number


def batch(base, count=2, timestamp=None):
    """Return the batch of the records `base` to `base + count - 1`."""
    records = [(base + number, value(base + number)) for number in range(count)]
    digest = hashlib.blake2b(repr(records).encode(), digest_size=12).digest()
    return SeenBatch(base, base + count - 1, 0, timestamp or base * 10, digest, records)


def sent(record, base, count=2, *, outcome=OK, offset=True, volatile=False):
    sends = [
        Send(KEY, value(base + number), base + number if offset else None)
        for number in range(count)
    ]
    times = base * SECOND, base * SECOND + 1
    record.sent(1, outcome, sends, times, is_volatile=volatile)


def good():
    """Return a record of ten records that were sent and read, and the whole log."""
    record = Record()
    for base in range(0, 10, 2):
        sent(record, base)
    batches = [batch(base) for base in range(0, 10, 2)]
    for one in batches:
        record.saw_batch(KEY, one, 0)
    records = [one for each in batches for one in each.records]
    record.polled(2, Poll(KEY, 0, records), (20 * SECOND, 21 * SECOND))
    return record, batches


def test_a_good_history_has_no_objection():
    record, batches = good()
    sent(record, 10, offset=False, outcome=INFO)
    sent(record, 12, offset=False, outcome=FAIL)
    assert judge(record, {KEY: WholeLog(0, batches)}, start_max={KEY: 0}) == []


def test_what_clients_note_by_themselves():
    record, batches = good()
    record.fail("producer 1", "an answer to nothing")
    assert judge(record, {KEY: WholeLog(0, batches)}) == ["producer 1: an answer to nothing"]


def test_a_lost_record():
    record, batches = good()
    found = judge(record, {KEY: WholeLog(0, batches[:-1])})
    assert any(one.startswith("unseen: ('t', 0): b'value-8'") for one in found)
    assert any(one.startswith("vanished: ('t', 0): b'value-8'") for one in found)
    found = judge(record, {KEY: WholeLog(0, [*batches[:2], *batches[3:]])})
    assert any(one.startswith("H2") for one in found)


def test_a_kill_loses_nothing_and_a_power_cut_what_was_volatile():
    for is_cut in (False, True):
        record, batches = good()
        sent(record, 10, volatile=True)
        if is_cut:
            record.power_cut(6 * SECOND)
            record.recovered({KEY: 10})
        found = judge(record, {KEY: WholeLog(0, batches)})
        assert bool(found) is not is_cut
    record, batches = good()
    sent(record, 10)
    record.power_cut(6 * SECOND)
    record.recovered({KEY: 10})
    found = judge(record, {KEY: WholeLog(0, batches)})
    assert len(found) == 2, "acks=all is durable"


def test_records_go_from_the_start_only_and_not_without_a_reason():
    record, batches = good()
    rest = {KEY: WholeLog(4, batches[2:])}
    assert judge(record, rest, start_max={KEY: 4}) == []
    assert judge(record, rest, start_max={KEY: 3}) == [
        "('t', 0) begins at 4, nobody deleted up to there"
    ]


def test_a_changed_batch():
    record, batches = good()
    changed = batches[1]._replace(digest=b"other")
    (found,) = judge(record, {KEY: WholeLog(0, [batches[0], changed, *batches[2:]])})
    assert found == "H1: ('t', 0): the batch at 2 has changed"


def test_marks_that_go_back():
    record, batches = good()
    whole = {KEY: WholeLog(0, batches)}
    record.breaches.append((START, KEY, Anomaly("H4", "went back")))
    record.breaches.append((HIGH_WATERMARK, KEY, Anomaly("H4", "fell")))
    assert judge(record, whole) == ["H4: went back", "H4: fell"]
    record.volatile.add(KEY)
    assert judge(record, whole) == ["H4: went back"]


def test_a_flip_explains_its_batch_and_nothing_else():
    record, batches = good()
    flips = {KEY: [Flipped(4, 6)]}
    holed = [*batches[:2], *batches[3:]]
    assert judge(record, {KEY: WholeLog(0, holed)}, flips=flips) == []
    assert judge(record, {KEY: WholeLog(0, batches)}, flips=flips) == []
    overlapping = [Flipped(4, 6), Flipped(4, 6), Flipped(5, 6), Flipped(4, 5)]
    assert judge(record, {KEY: WholeLog(0, holed)}, flips={KEY: overlapping}) == []
    for rest in (batches[:2], [batches[0], *batches[3:]], [*batches[:2], *batches[4:]]):
        assert judge(record, {KEY: WholeLog(0, rest)}, flips=flips) != []
    assert judge(record, {KEY: WholeLog(0, holed)}) != []
    assert judge(record, {KEY: WholeLog(0, holed)}, flips={("t", 1): [Flipped(4, 6)]}) != []


def test_compaction_may_remove_what_a_flipped_batch_replaced():
    record = Record()
    record.compacted.add(KEY)
    for offset, told in enumerate((b"k:old", b"k:new")):
        times = (offset * SECOND, (offset + 1) * SECOND)
        record.sent(1, OK, [Send(KEY, told, offset)], times)
    nothing = {KEY: WholeLog(0, [])}
    assert judge(record, nothing, flips={KEY: [Flipped(1, 2)]}) == []
    assert judge(record, nothing) != []
    assert judge(record, nothing, flips={KEY: [Flipped(0, 1)]}) != []
    nobodys = Flipped(2, 3, [(2, b"k:newest")])  # sent with acks=0, and never read
    assert judge(record, nothing, flips={KEY: [nobodys]}) == []
    assert judge(record, nothing, flips={KEY: [Flipped(2, 3, [(2, b"l:other")])]}) != []


def test_values_of_a_deleted_topic_count_where_somebody_read():
    record = Record()
    sent(record, 0, 5)
    records = [(number, value(number)) for number in (2, 4)]
    record.polled(2, Poll(KEY, 2, records), (20 * SECOND, 21 * SECOND), seeks=True)
    found = judge(record, {})
    assert [one for one in found if one.startswith("lost-write")] == [
        "lost-write: ('t', 0): b'value-3' at 3"
    ]


def test_wrong_bytes_that_no_flip_has_made():
    record, batches = good()
    record.corrupt.append(Corrupt(3, "fetcher 2", KEY, 4, "crc"))
    (found,) = judge(record, {KEY: WholeLog(0, batches)}, flips={KEY: [Flipped(4, 6)]})
    assert found == "fetcher 2 got other bytes of ('t', 0) at 4: crc"
    record.corrupt.clear()
    changed = batches[2]._replace(digest=b"a field that no checksum covers", epoch=1 << 20)
    record.saw_batch(KEY, changed, 0)
    (found,) = judge(record, {KEY: WholeLog(0, batches)}, flips={KEY: [Flipped(4, 6)]})
    assert found == "H1: ('t', 0): the batch at 4 has changed"


def look(asked, told, timestamp, sent_s):
    return Lookup(KEY, asked, told, timestamp, int(sent_s * SECOND), int(sent_s * SECOND) + 5)


def test_look_ups_by_time():
    record, batches = good()
    whole = {KEY: WholeLog(0, batches)}
    record.lookups += [
        look(35, 4, 40, 30),  # batches have the times 0, 20, 40, 60, 80
        look(40, 5, 40, 30),
        look(81, -1, -1, 30),
        look(80, -1, -1, 7.5),  # it came later
    ]
    assert judge(record, whole) == []
    record.lookups[:] = [look(35, 4, 30, 30)]
    assert judge(record, whole) == ["H5: ('t', 0): time 35 is told at 4, of 30"]
    record.lookups[:] = [look(35, 6, 60, 30)]
    assert judge(record, whole) == ["H5: ('t', 0): time 35 is told at 6, 4 is not older"]
    record.lookups[:] = [look(80, -1, -1, 9)]
    assert judge(record, whole) == ["H5: ('t', 0): time 80 is told at -1, 8 is not older"]


def test_look_ups_by_time_among_empty_batches():
    record, batches = good()
    batches[2] = batches[2]._replace(records=())  # compacted; its time, 40, remains
    record.lookups.append(look(35, 6, 60, 30))
    found = judge(record, {KEY: WholeLog(0, batches)})
    assert not [one for one in found if one.startswith("H5")]


def test_look_ups_before_a_log_has_lost_its_end():
    record, batches = good()
    record.lookups += [look(80, -1, -1, 20), look(85, 9, 85, 20)]
    changed = [(offset, b"another-%d" % offset) for offset, _ in batches[4].records]
    batches[4] = batches[4]._replace(records=changed, timestamp=90)
    batches.append(batch(10, timestamp=100))
    finals = {KEY: WholeLog(0, batches)}
    told = "H5: ('t', 0): time 80 is told at -1, 8 is not older"
    assert told not in judge(record, finals)
    record.lookups[0] = look(80, 10, 100, 20)
    assert "H5: ('t', 0): time 80 is told at 10, 8 is not older" in judge(record, finals)
    record.volatile.add(KEY)
    assert not [one for one in judge(record, finals) if one.startswith("H5")]


def test_look_ups_in_a_log_that_has_failed():
    """With write.caching, records that were acknowledged are hidden until the next start."""
    record, batches = good()
    whole = {KEY: WholeLog(0, batches)}
    record.lookups.append(look(80, -1, -1, 9))
    told = "H5: ('t', 0): time 80 is told at -1, 8 is not older"

    def h5(failed_s):
        def had_failed(key, at_ns):
            return key == KEY and at_ns >= failed_s * SECOND

        found = judge(record, whole, had_failed=had_failed)
        return [one for one in found if one.startswith("H5")]

    assert h5(8.5) == [told], "what others were told was durable"
    record.volatile.add(KEY)
    assert h5(8.5) == []
    assert h5(9.5) == [told], "it failed later"
    record.lookups[:] = [look(75, 10, 100, 9)]
    assert h5(8.5) == ["H5: ('t', 0): time 75 is told at 10, 8 is not older"], "it is below that"


def test_many_objections_are_counted():
    record, batches = good()
    for number in range(20):
        record.fail("c", str(number))
    found = judge(record, {KEY: WholeLog(0, batches)})
    assert len(found) == 13
    assert found[-1] == "and 8 more"


def test_a_late_reader():
    record, batches = good()
    record.polled(3, Poll(KEY, 8, []), (40 * SECOND, 41 * SECOND))
    whole = {KEY: WholeLog(0, batches)}
    assert judge(record, whole, lag_s_allowed=33.0) == []
    (found,) = judge(record, whole, lag_s_allowed=10.0)
    assert found.startswith("realtime-lag")


def test_look_ups_in_a_failed_log_of_records_that_no_fsync_has_covered():
    """They were acknowledged with acks=1, and are served again after the next start."""
    record, batches = good()
    sent(record, 10, volatile=True)
    whole = {KEY: WholeLog(0, [*batches, batch(10)])}
    record.lookups.append(look(100, -1, -1, 12))
    told = "H5: ('t', 0): time 100 is told at -1, 10 is not older"
    for failed_s, wanted in ((11, []), (13, [told])):
        found = judge(record, whole, had_failed=lambda _, at_ns, s=failed_s: at_ns >= s * SECOND)
        assert [one for one in found if one.startswith("H5")] == wanted


def test_what_is_there_is_served():
    record, batches = good()
    record.unserved.append(Unserved(SECOND, "fetcher 1", KEY, 4, 10, "nothing"))
    finals = {KEY: WholeLog(0, batches)}
    assert judge(record, finals) == ["fetcher 1 got nothing for ('t', 0) at 4, mark 10"]
    assert judge(record, finals, had_failed=lambda key, at_ns: at_ns == SECOND) == []
    record.volatile.add(KEY)
    assert judge(record, finals) == []


def test_a_flipped_bit_may_hide_what_is_there():
    record, batches = good()
    record.unserved.append(Unserved(SECOND, "fetcher 1", KEY, 4, 10, "nothing"))
    flips = {KEY: [Flipped(4, 6)]}
    assert judge(record, {KEY: WholeLog(0, batches)}, flips=flips) == []
    assert len(judge(record, {KEY: WholeLog(0, batches)}, flips={KEY: []})) == 1


def test_what_was_sent_before_a_half_close_is_there():
    record, batches = good()
    finals = {KEY: WholeLog(0, batches)}
    record.parted.append(("parting producer", KEY, [value(3)]))
    assert parted(record, finals, [KEY]) == []
    record.parted.append(("parting producer", KEY, [value(9), b"lost"]))
    said = "parting producer half-closed behind [b'lost'], which ('t', 0) has not"
    assert parted(record, finals, [KEY]) == [said]
    assert parted(record, finals, ()) == []
    assert parted(record, {}, [KEY]) == []
