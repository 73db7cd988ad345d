"""Segments of a directory and their batches: found, walked, and every kind of damage named."""

from __future__ import annotations

import os
import random
import re
import struct
import zlib

import pytest

from pyspark_barnabas.source import segments
from pyspark_barnabas.source.segments import Damage, Piece, find_logs, walk
from pyspark_barnabas.wire.encode import Record, build_batch
from pyspark_barnabas.wire.errors import NotALog


def batch(offset, count=3, value=b"v" * 50, codec=0):
    records = [Record(b"k%d" % index, value, 1000 + offset + index) for index in range(count)]
    return bytes(build_batch(records, base_offset=offset, codec=codec))


def write(directory, batches, *, base=0, name=None, topic="t-0"):
    path = directory / topic / (name or f"{base:020d}.log")
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(b"".join(batches))
    return path


def only_segment(directory):
    ((segment,),) = [log.segments for log in find_logs(str(directory))]
    return segment


def walked(segment, **settings):
    """Return the base offsets that were given out, and the damage."""
    offsets, damage = [], []
    for found in walk(segment, **settings):
        if isinstance(found, Piece):
            assert found.batches
            for one in found.batches:
                at = found.position + one.position
                with open(segment.path, "rb") as file:
                    file.seek(at)
                    assert found.data[one.position :][: one.size] == file.read(one.size)
                offsets.append(one.base_offset)
        else:
            damage.append(found)
    return offsets, damage


THREE = [batch(0), batch(3), batch(6)]
SIZE = len(THREE[0])


# -- what a directory holds ----------------------------------------------------------------------


def test_only_whole_segments_are_found_and_each_knows_the_next(tmp_path):
    (tmp_path / "meta.properties").write_text("version=1\n")
    for base in (0, 9, 30):
        write(tmp_path, [batch(base)], base=base, topic="a.b-c-12")
    for name in ("00000000000000000003.log.deleted", "00000000000000000003.log.cleaned",
                 "00000000000000000000.log.77.1700000000000.quarantine", "9.log", "x.log",
                 "00000000000000000000.index", "partition.metadata"):  # fmt: skip
        write(tmp_path, [b"junk"], name=name, topic="a.b-c-12")
    (tmp_path / ("t-0." + "a" * 32 + "-delete")).mkdir()
    (tmp_path / "b-0").mkdir()
    (tmp_path / "b-01").mkdir()
    (tmp_path / "notes").mkdir()
    first, second = find_logs(str(tmp_path))
    assert (first.topic, first.partition, second.topic) == ("a.b-c", 12, "b")
    assert [one.base_offset for one in first.segments] == [0, 9, 30]
    assert [one.next_base for one in first.segments] == [9, 30, None]
    assert [one.is_last for one in first.segments] == [False, False, True]
    assert first.size == 3 * SIZE
    assert second.segments == ()


def test_a_directory_with_no_topic_yet_is_one(tmp_path):
    (tmp_path / "meta.properties").touch()
    assert find_logs(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("make", "path", "words"),
    [
        (lambda d: None, ".", "no broker's data directory: it is empty, and no meta.properties"),
        (lambda d: (d / "x").touch(), ".", "there is no <topic>-<partition> in it"),
        (lambda d: (d / "x").touch(), "x", "x is a file, wanted a broker's data directory"),
        (lambda d: None, "y", "No such file.*the same path on the driver and on every executor"),
        (lambda d: write(d, THREE), "t-0", "the directory of one partition, t-0. Give .* assign"),
    ],
)
def test_what_is_no_data_directory_is_told_by_name(tmp_path, make, path, words):
    make(tmp_path)
    with pytest.raises(NotALog, match=words):
        find_logs(str(tmp_path / path))


# -- a compaction that was stopped ---------------------------------------------------------------


def bases(directory):
    (log,) = find_logs(str(directory))
    return [(os.path.basename(one.path)[20:], one.base_offset) for one in log.segments]


def test_a_swapped_copy_stands_for_the_segments_it_was_made_of(tmp_path):
    for base in (0, 3, 9):
        write(tmp_path, [batch(base)], base=base)
    write(tmp_path, [batch(1, 1), batch(4, 2)], name=f"{0:020d}.log.swap")
    assert bases(tmp_path) == [(".log.swap", 0), (".log", 9)]
    os.remove(tmp_path / "t-0" / f"{0:020d}.log")  # whether its sources have gone or not
    assert bases(tmp_path) == [(".log.swap", 0), (".log", 9)]


def test_a_swapped_copy_is_undone_while_a_cleaned_one_stands_beside_it(tmp_path):
    write(tmp_path, THREE)
    write(tmp_path, [batch(0)], name=f"{0:020d}.log.swap")
    write(tmp_path, [], name=f"{0:020d}.log.cleaned")
    assert bases(tmp_path) == [(".log", 0)]


@pytest.mark.parametrize("has_source", [True, False])
def test_a_damaged_copy_is_used_only_if_its_source_is_gone(tmp_path, has_source):
    if has_source:
        write(tmp_path, THREE)
    write(tmp_path, [batch(0), batch(3)[:-5]], name=f"{0:020d}.log.swap")
    assert bases(tmp_path) == [(".log" if has_source else ".log.swap", 0)]


# -- walking -------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_bytes", [61, 100, SIZE, SIZE + 1, 2 * SIZE + 40, 1 << 20])
def test_all_batches_are_given_out_whatever_is_read_at_a_time(tmp_path, chunk_bytes):
    dice = random.Random(chunk_bytes)
    batches, offset = [], 0
    for _ in range(40):
        count = dice.randrange(1, 5)
        batches.append(batch(offset, count, dice.randbytes(dice.choice([0, 20, 300, 5000]))))
        offset += count + dice.choice([0, 0, 3])  # holes are compaction's
    write(tmp_path, batches)
    offsets, damage = walked(only_segment(tmp_path), chunk_bytes=chunk_bytes)
    assert (len(offsets), damage) == (40, [])


def test_a_part_of_a_segment_is_walked_from_batch_to_batch(tmp_path):
    write(tmp_path, THREE)
    segment = only_segment(tmp_path)
    assert walked(segment, start=SIZE, end=2 * SIZE, next_offset=3, end_offset=6) == ([3], [])
    assert walked(segment, start=SIZE, next_offset=3) == ([3, 6], [])
    offsets, (damage,) = walked(segment, end=2 * SIZE, end_offset=4)
    assert (offsets, damage.kind) == ([0], "order")


def test_an_empty_segment_has_nothing(tmp_path):
    write(tmp_path, [])
    assert walked(only_segment(tmp_path), tails=True) == ([], [])


# -- damage --------------------------------------------------------------------------------------


def flipped(data, position, value=0x10):
    changed = bytearray(data)
    changed[position] ^= value
    return bytes(changed)


CASES = {
    # name: (bytes, kind, position, size, offset, next offset, words, offsets read all the same)
    "a bit of a record": ([THREE[0], flipped(THREE[1], 90), THREE[2]],
                          "checksum", SIZE, SIZE, 3, 6, "CRC-32C 0x", [0, 6]),
    "the last batch": ([*THREE[:2], flipped(THREE[2], 90)],
                       "checksum", 2 * SIZE, SIZE, 6, -1, "CRC-32C 0x", [0, 3]),
    "two batches": ([flipped(THREE[0], 30), flipped(THREE[1], 30), THREE[2]],
                    "checksum", 0, 2 * SIZE, 0, 6, "CRC-32C 0x", [6]),
    "a length too long": ([THREE[0], flipped(THREE[1], 10, 0x70), THREE[2]],
                          "structure", SIZE, SIZE, 3, 6, "a batch of .* are left", [0, 6]),
    "a length too short": ([THREE[0], flipped(THREE[1], 11, 0x40), THREE[2]],
                           "checksum", SIZE, SIZE, 3, 6, "", [0, 6]),
    "a length of nothing": ([THREE[0], THREE[1][:8] + bytes(4) + THREE[1][12:], THREE[2]],
                            "structure", SIZE, SIZE, 3, 6, "batch length 0", [0, 6]),
    "a magic that is none": ([THREE[0], flipped(THREE[1], 16, 9), THREE[2]],
                             "structure", SIZE, SIZE, 3, 6, "magic 11, wanted 2", [0, 6]),
    "zeros in the middle": ([THREE[0], bytes(5000), THREE[1]],
                            "structure", SIZE, 5000, 3, 3, "", [0, 3]),
    "garbage in the middle": ([THREE[0], b"\x37" * 5000, THREE[1]],
                              "structure", SIZE, 5000, 3, 3, "magic 55", [0, 3]),
    "garbage at the end": ([THREE[0], b"\x37" * 5000],
                           "structure", SIZE, 5000, 3, -1, "magic 55", [0]),
    "offsets go back": ([THREE[0], THREE[1], THREE[0], THREE[2]],
                        "order", 2 * SIZE, SIZE, 6, 6, "base offset 0, wanted at least 6",
                        [0, 3, 6]),
    "one offset too high": ([THREE[0], flipped(THREE[1], 2), THREE[2]],
                            "order", SIZE, SIZE, 3, 3, "wanted below 6", [0, 6]),
}  # fmt: skip


@pytest.mark.parametrize("chunk_bytes", [100, SIZE, 1 << 20])
@pytest.mark.parametrize("name", CASES)
def test_damage_has_a_name_a_place_and_an_end(tmp_path, name, chunk_bytes):
    parts, kind, position, size, offset, next_offset, words, read = CASES[name]
    path = write(tmp_path, parts)
    offsets, (damage,) = walked(only_segment(tmp_path), chunk_bytes=chunk_bytes)
    assert offsets == read
    assert isinstance(damage, Damage)
    assert (damage.kind, damage.position, damage.size) == (kind, position, size)
    assert (damage.offset, damage.next_offset) == (offset, next_offset)
    assert re.search(words, damage.reason)
    assert str(damage).startswith(f"{path} at position {position}: {kind}, ")


def test_a_segment_that_goes_on_into_the_next_is_told(tmp_path):
    write(tmp_path, THREE)
    write(tmp_path, [batch(5)], base=5)
    ((first, _),) = [log.segments for log in find_logs(str(tmp_path))]
    offsets, damage = walked(first)
    assert offsets == [0]
    assert [(one.kind, one.position) for one in damage] == [("order", SIZE), ("order", 2 * SIZE)]


def test_every_flipped_bit_is_found_or_harmless(tmp_path):
    """Of any byte of the middle batch but its epoch: one damage, and nothing wrong is given out."""
    whole = b"".join(THREE)
    for position in range(SIZE, 2 * SIZE):
        if 12 <= position - SIZE < 16:
            continue  # the leader epoch lies outside the CRC and leads nobody astray
        write(tmp_path, [flipped(whole, position, 1 << position % 8)])
        offsets, damage = walked(only_segment(tmp_path))
        assert offsets == [0, 6], position
        assert damage


# -- ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rest", range(8, SIZE, 7))
def test_a_torn_end_is_usual_in_the_last_segment_and_damage_in_others(tmp_path, rest):
    write(tmp_path, [THREE[0], THREE[1][:rest]])
    segment = only_segment(tmp_path)
    assert walked(segment) == ([0], [])
    offsets, (damage,) = walked(segment, tails=True)
    assert (offsets, damage.kind, damage.position, damage.size) == ([0], "torn", SIZE, rest)
    write(tmp_path, [batch(6)], base=6)
    ((first, _),) = [log.segments for log in find_logs(str(tmp_path))]
    offsets, (damage,) = walked(first)
    assert (offsets, damage.kind, damage.next_offset) == ([0], "torn", -1)


@pytest.mark.parametrize("size", [1, 60, 61, 4096, 3 << 20])
def test_zeros_at_the_end_are_usual_in_the_last_segment(tmp_path, size):
    write(tmp_path, [THREE[0], bytes(size)])
    segment = only_segment(tmp_path)
    assert walked(segment) == ([0], [])
    _, (damage,) = walked(segment, tails=True)
    assert (damage.kind, damage.position, damage.size) == ("zeros", SIZE, size)


def test_a_file_of_something_else_is_no_torn_end(tmp_path):
    write(tmp_path, [b"GIF89a" + random.Random(1).randbytes(9000)])
    offsets, (damage,) = walked(only_segment(tmp_path))
    assert (offsets, damage.kind, damage.position) == ([], "structure", 0)


def test_a_file_cut_while_it_is_read_is_told(tmp_path):
    path = write(tmp_path, THREE)
    segment = only_segment(tmp_path)
    os.truncate(path, SIZE)
    offsets, (damage,) = walked(segment)
    assert (offsets, damage.kind) == ([0], "structure")
    assert "the file was cut to" in damage.reason


def test_what_was_appended_since_is_left_out(tmp_path):
    path = write(tmp_path, THREE[:1])
    segment = only_segment(tmp_path)
    path.write_bytes(b"".join(THREE))
    assert walked(segment, tails=True) == ([0], [])


# -- messages from before batches ----------------------------------------------------------------


def message(offset, magic, value=b"old"):
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", 1000) if magic else b"")
    body += struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def test_old_messages_are_passed_over_by_name(tmp_path):
    old = [message(0, 0), message(1, 1), message(2, 1)]
    write(tmp_path, [*old, batch(3), batch(6)])
    offsets, (damage,) = walked(only_segment(tmp_path))
    assert offsets == [3, 6]
    assert (damage.kind, damage.position, damage.size) == ("format", 0, len(b"".join(old)))
    assert (damage.offset, damage.next_offset) == (0, 3)
    assert damage.reason == "3 messages of format 0 and 1, from before Kafka 0.11"


def test_a_damaged_old_message_is_damage(tmp_path):
    write(tmp_path, [message(0, 1), flipped(message(1, 1), 30), batch(3)])
    offsets, damage = walked(only_segment(tmp_path))
    assert offsets == [3]
    assert [one.kind for one in damage] == ["format", "structure"]


def test_a_batch_larger_than_any_broker_takes_is_damage(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "BATCH_BYTES_MAX", 1000)
    write(tmp_path, [batch(0), batch(3, 1, bytes(2000)), batch(4)])
    offsets, (damage,) = walked(only_segment(tmp_path), chunk_bytes=500)
    assert offsets == [0, 4]
    assert damage.kind == "checksum"
