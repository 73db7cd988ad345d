"""The pipeline `verify`, on Spark and beside `barnabas verify`."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from log_files import LogFiles, batch, turn
from topics import Topic

from pyspark_barnabas.jobs import cli, verify
from pyspark_barnabas.jobs.log_check import plan
from pyspark_barnabas.jobs.segment_check import check_segment
from pyspark_barnabas.source.segments import Segment
from pyspark_barnabas.wire.encode import Record

ROOT = Path(__file__).parents[2]


def pipeline(spark, *words):
    stdout = io.StringIO()
    code = cli.main(["verify", *map(str, words)], spark=spark, stdout=stdout, stderr=io.StringIO())
    return code, stdout.getvalue()


@pytest.mark.spark
def test_directories_are_checked_on_spark(spark, tmp_path):
    files = LogFiles(tmp_path / "data")
    for partition in range(3):
        files.write(f"t-{partition}", [batch(0), batch(3)])
        files.write(f"t-{partition}", [batch(6)], base=6)
    code, said = pipeline(spark, files, "--records")
    assert code == 0
    assert "Sound: 3 partitions, 6 segments, 9 batches, 2" in said
    assert "27 records opened." in said
    turn(files.path("t-1"), 80)
    code, said = pipeline(spark, files)
    assert code == 1
    assert f"DAMAGE checksum: {files.path('t-1')} at position 0, offset 0\n" in said
    assert "Not sound: 1 finding of damage, 0 in files that can be built again." in said
    code, said = pipeline(spark, files, "--topic", "other", "--json")
    found = json.loads(said)
    assert (code, found["ok"], found["sound"], found["segments"]) == (0, True, True, 0)
    code, said = pipeline(spark, files, "--json")
    found = json.loads(said)
    assert (code, found["ok"], found["sound"], found["segments"]) == (1, False, False, 6)
    assert found["findings"][0]["kind"] == "checksum"


def test_what_is_no_directory_is_one_line(tmp_path):
    stderr = io.StringIO()
    assert cli.main(["verify", str(tmp_path)], spark=object(), stderr=stderr) == 1
    assert stderr.getvalue().startswith(f"barnabas-pipeline: {tmp_path} is no broker's data dir")


def test_large_segments_have_a_task_each_and_small_ones_share_one():
    sizes = [verify.GROUP_BYTES + 1, verify.GROUP_BYTES // 2, verify.GROUP_BYTES // 2, 5, 0]
    jobs = [(Segment("t", 0, f"{n}.log", n, size), "clean") for n, size in enumerate(sizes)]
    groups = [[segment.base_offset for segment, _ in group] for group in verify.grouped(jobs)]
    assert groups == [[0], [1, 2], [3, 4]]
    assert verify.grouped([]) == []
    many = [(Segment("t", 0, "x.log", 0, 0), "clean")] * (verify.GROUP_COUNT_MAX + 1)
    assert [len(group) for group in verify.grouped(many)] == [verify.GROUP_COUNT_MAX, 1]


def test_a_directory_that_is_written_to_is_sound(tmp_path):
    """Segments grow, are rolled, compacted and deleted while they are checked, again and again."""
    settings = {
        "log.segment.bytes": "1048576", "log.index.interval.bytes": "500", "num.partitions": "3",
        "log.cleanup.policy": "compact,delete", "log.retention.bytes": "4194304",
        "log.cleaner.backoff.ms": "50", "log.retention.check.interval.ms": "200",
        "log.cleaner.min.cleanable.ratio": "0.01", "log.segment.delete.delay.ms": "100",
    }  # fmt: skip
    with BrokerProcess(tmp_path / "data", settings) as broker, Topic(broker.address) as topic:
        ended, noise = threading.Event(), os.urandom(6000)

        def write():
            with Topic(broker.address) as mine:
                mine.name = topic.name
                for number in range(100_000):
                    if ended.is_set():
                        return
                    made = [Record(b"%d" % (number * 7 % 900 + i), noise, i) for i in range(9)]
                    mine.append(number % 3, made, codec=number % 5)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            segments, deadline = set(), time.monotonic() + 60
            while len(segments) < 40 and time.monotonic() < deadline:
                planned = plan(str(broker.data))
                reports = [check_segment(one, planned.ending, open_records=True)
                           for one in planned.segments]  # fmt: skip
                found = verify.outcome([planned], reports, all_compacted=False)
                assert found.facts["findings"] == []
                segments.update(one.path for one in planned.segments)
        finally:
            ended.set()
            writer.join()
        assert found.facts["broker_pids"] == [broker.pid]
        assert len(segments) >= 40


# -- beside `barnabas verify` ----------------------------------------------------------------------

# Of these it finds more: what the directory's other files say is not looked at here.
OTHER_FILES = {"checkpoint", "identity", "metadata", "snapshot"}
# The same damage, told of in other places: which of two files is the wrong one cannot be known.
TOLD_ELSEWHERE = "a segment twice"


def key(finding, path):
    where = os.path.relpath(finding["path"], path)
    return finding["weight"], finding["kind"], where, finding["position"]


def is_of_a_segment(found):
    weight, kind, path, _ = found
    if weight == "note" or kind in OTHER_FILES or path.startswith("__"):
        return False
    return weight == "damage" or path.endswith("index")


def agreement(directory, flips):
    """Return (name, what `barnabas verify` finds of segments, what the pipeline does)."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.rotten_reports", str(directory), str(flips)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for line in done.stdout.splitlines():
        row = json.loads(line)
        planned = plan(row["path"])
        reports = [
            check_segment(one, planned.ending, open_records=False) for one in planned.segments
        ]
        ours = verify.outcome([planned], reports, all_compacted=False).facts["findings"]
        theirs = {key(one, row["path"]) for one in row["report"]["findings"]}
        yield (
            row["name"],
            {one for one in theirs if is_of_a_segment(one)},
            {one for one in (key(one, row["path"]) for one in ours) if is_of_a_segment(one)},
        )


def may_differ(name, theirs, ours):
    """Whether this is one of the few cases in which no more than the log is agreed upon."""
    if name.startswith("crashed") and "leader epoch" in name:
        return not ours and {one[1] for one in theirs} == {"epoch"}  # of the log's last batch
    if TOLD_ELSEWHERE in name or "base offset" in name:
        return all(any(one[0] == "damage" for one in found) for found in (theirs, ours))
    return False


@pytest.mark.parametrize(
    ("flips", "least"), [(40, 100), pytest.param(3000, 1500, marks=pytest.mark.slow)]
)
def test_it_agrees_with_barnabas_verify_on_every_kind_of_damage(tmp_path, flips, least):
    rows = list(agreement(tmp_path, flips))
    differ = [row for row in rows if row[1] != row[2]]
    assert [row for row in differ if not may_differ(*row)] == []
    assert len(rows) >= least
    assert len(differ) <= len(rows) // 50
    kinds = {one[1] for _, _, ours in rows for one in ours}
    assert kinds >= {"structure", "checksum", "order", "torn", "zeros", "missing", "epoch",
                     "index", "timeindex"}  # fmt: skip
