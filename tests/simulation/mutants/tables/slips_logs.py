"""Slips in logs: appends, look-ups, indexes, retention, compaction, producers."""

from tests.simulation.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "records-below-the-start-are-served",
        "a fetch below the log start offset returns records that were deleted",
        "storage/log_reader.py",
        """\
        if start_offset < self.start_offset:
            raise OffsetOutOfRange""",
        """\
        if start_offset < 0:
            raise OffsetOutOfRange""",
        (
            (
                "broker/partitions/fetch_asked.py",
                """\
            if not log.start_offset <= offset <= log.end_offset:
                return True
""",
                "",
            ),
        ),
    ),
    Mutant(
        "offset-index-one-too-low",
        "an entry of the offset index has the offset before its batch's last one",
        "storage/segments/segment.py",
        """\
            indexes.add(last_offset, position, self._max_timestamp, self._max_timestamp_offset)
""",
        """\
            indexes.add(
                last_offset - 1, position, self._max_timestamp, self._max_timestamp_offset
            )
""",
    ),
    Mutant(
        "time-index-names-the-wrong-batch",
        "an entry of the time index has the offset of the newest batch, not of the one with the"
        " largest timestamp",
        "storage/segments/segment.py",
        """\
            indexes.add(last_offset, position, self._max_timestamp, self._max_timestamp_offset)
""",
        """\
            indexes.add(last_offset, position, self._max_timestamp, last_offset)
""",
    ),
    Mutant(
        "equal-timestamp-passed-over",
        "a look-up by time passes over the segment whose largest timestamp is the one asked for",
        "storage/segments/row.py",
        """\
            if segment.max_timestamp >= timestamp:
""",
        """\
            if segment.max_timestamp > timestamp:
""",
    ),
    Mutant(
        "record-at-the-time-passed-over",
        "a look-up by time returns the record after the one with that timestamp",
        "protocol/record_walks.py",
        """\
        if found.timestamp >= timestamp and found.offset >= from_offset:
""",
        """\
        if found.timestamp > timestamp and found.offset >= from_offset:
""",
    ),
    Mutant(
        "cold-batches-unchecked",
        "batches that a start found in the files are served without a look at their checksums",
        "storage/segments/soundness.py",
        """\
    return _first_with_wrong_crc(segment, walked, position) or (position, expected, trouble)
""",
        """\
    return position, expected, trouble
""",
        only_with=frozenset({"flip"}),
    ),
    Mutant(
        "one-batch-too-few-remembered",
        "four batches of each producer are remembered in place of five",
        "storage/producers/producer_state.py",
        "BATCHES_KEPT = 5  #",
        "BATCHES_KEPT = 4  #",
    ),
    Mutant(
        "sequences-do-not-wrap",
        "a producer whose sequence wraps to 0 is refused",
        "storage/producers/producer_state.py",
        """\
            if first != last + 1 and (first != 0 or last != SEQUENCE_MAX):
""",
        """\
            if first != last + 1:
""",
    ),
    Mutant(
        "first-sequence-wraps-one-short",
        "a retried batch across the wrap of sequences is not known again",
        "storage/producers/producer_state.py",
        """\
        return first if first >= 0 else first + SEQUENCE_MAX + 1
""",
        """\
        return first if first >= 0 else first + SEQUENCE_MAX
""",
    ),
    Mutant(
        "gap-in-sequences-accepted",
        "a batch is appended although an earlier one of its producer is missing",
        "storage/producers/producer_state.py",
        """\
            raise OutOfOrderSequence(producer_id, first, (last + 1) & SEQUENCE_MAX)
""",
        """\
            return None
""",
    ),
    Mutant(
        "old-producer-epoch-accepted",
        "a batch of an older epoch of its producer is appended",
        "storage/producers/producer_state.py",
        """\
        elif epoch < entry.epoch:
            raise InvalidProducerEpoch(producer_id, epoch, entry.epoch)
""",
        "",
    ),
    Mutant(
        "producers-expire-by-their-records",
        "a producer that sends old timestamps loses its protection against duplicates",
        "storage/producers/producer_state.py",
        """\
        heard_ms = max(self.last_timestamp, self.seen_ms)
""",
        """\
        heard_ms = self.last_timestamp
""",
    ),
    Mutant(
        "snapshot-of-producers-not-frozen",
        "a snapshot of the producers changes while it waits to be written",
        "storage/producers/producer_state.py",
        """\
        self._generation += 1
        entries, witness""",
        """\
        entries, witness""",
    ),
    Mutant(
        "producer-noted-before-the-write",
        "a batch counts as known before it is written: after a failed write its retry is"
        " acknowledged, and in no file",
        "storage/log.py",
        """\
        base_offset = self._write(batch, header, now_ms)
        if producer_id >= 0:
            self.producers.take(header, base_offset, now_ms)
        end_offset = self.end_offset
""",
        """\
        if producer_id >= 0:
            self.producers.take(header, self.end_offset, now_ms)
        base_offset = self._write(batch, header, now_ms)
        end_offset = self.end_offset
""",
    ),
    Mutant(
        "producers-lost-with-their-segments",
        "segments are deleted before a snapshot on the disk has what they say about producers",
        "storage/trimming.py",
        """\
    return offset <= state.recovery_point and state.snapshots.covers(state.producers, offset)
""",
        """\
    return offset <= state.durable_offset
""",
        only_with=frozenset({"prudent producer"}),
    ),
    Mutant(
        "retention-takes-the-segment-of-the-start",
        "the segment that holds the log start offset is deleted, with records behind that offset",
        "storage/retention.py",
        """\
    while gone < min(eligible, len(segments) - 1) and ends[gone] <= start_offset:
""",
        """\
    while gone < min(eligible, len(segments) - 1) and segments[gone].base_offset < start_offset:
""",
    ),
    Mutant(
        "retention-by-size-takes-one-too-many",
        "retention by size deletes segments until the log is smaller than retention.bytes",
        "storage/retention.py",
        """\
        while gone < eligible and excess - segments[gone].size >= 0:
""",
        """\
        while gone < eligible and excess > 0:
""",
    ),
    Mutant(
        "retention-by-age-of-the-oldest",
        "retention by time deletes a segment when its first record is old enough",
        "storage/retention.py",
        """\
    timestamp = segment.max_timestamp
    return timestamp if timestamp >= 0 else segment.created_ms
""",
        """\
    timestamp = getattr(segment, "first_timestamp", None)
    return segment.created_ms if timestamp is None or timestamp < 0 else timestamp
""",
        only_with=frozenset({"slow segment"}),
    ),
    Mutant(
        "compaction-drops-the-newest",
        "compaction drops the newest value of each key",
        "storage/compaction/copier.py",
        """\
                    and span.offset >= newest(span.key)
""",
        """\
                    and span.offset > newest(span.key)
""",
    ),
    Mutant(
        "tombstones-dropped-at-once",
        "the first pass of compaction drops tombstones, before delete.retention.ms",
        "storage/compaction/copier.py",
        """\
            or not header.has_delete_horizon
""",
        "",
    ),
    Mutant(
        "compaction-ignores-the-lag",
        "records younger than min.compaction.lag.ms are compacted",
        "storage/compaction/cleanable.py",
        """\
        if config.min_compaction_lag_ms and newest_ms(segment) > youngest_ms:
            break
""",
        """\
        _ = youngest_ms
""",
    ),
    Mutant(
        "high-watermark-falls",
        "turning write.caching off hides records that consumers have seen",
        "storage/log.py",
        """\
            self.high_watermark = max(self.high_watermark, wanted)
""",
        """\
            self.high_watermark = wanted
""",
        only_with=frozenset({"config admin"}),
    ),
    Mutant(
        "epoch-ends-where-it-begins",
        "an older leader epoch is said to end where it begins",
        "storage/leader_epochs.py",
        """\
        return self._epochs[after - 1], self._starts[after]
""",
        """\
        return self._epochs[after - 1], self._starts[after - 1]
""",
    ),
)
