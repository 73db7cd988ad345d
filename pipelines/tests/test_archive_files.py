"""The file names of an archive: what they mean, and what they make it refuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_barnabas.jobs import archive_files
from pyspark_barnabas.jobs.archive_files import Description, file_name
from pyspark_barnabas.offsets import Range
from pyspark_barnabas.wire.errors import BadOption, CorruptArchive

PIPELINES = Path(__file__).parents[1]


def put(root, start, end, number=1, count=1, below="", partition=0):
    """Create a file with a range's name; its content does not matter here."""
    directory = archive_files.partition_directory(root, "t", partition) / below
    directory.mkdir(parents=True, exist_ok=True)
    name = file_name(Range("t", partition, start, end), number, count, by_date=bool(below))
    (directory / name).touch()
    return directory / name


def ends(root):
    return archive_files.contents(root).ends()


def test_a_name_says_topic_partition_and_range(tmp_path):
    path = put(tmp_path, 1000, 2000, partition=3)
    assert path.relative_to(tmp_path).as_posix() == (
        "topic=t/partition=3/00000000000000001000-00000000000000002000.parquet"
    )
    put(tmp_path, 9, 1000, partition=3)
    found = archive_files.contents(tmp_path)
    (at, pieces), *rest = found.pieces.items()
    assert (at, rest) == (("t", 3), [])
    assert [(piece.start, piece.end) for piece in pieces] == [(9, 1000), (1000, 2000)]
    assert ends(tmp_path) == {("t", 3): 2000}
    archive_files.check(found, tmp_path)


def test_other_files_are_none_of_an_archives(tmp_path):
    place = put(tmp_path, 0, 10).parent
    (place / "readme.parquet").touch()
    (place / f".{file_name(Range('t', 0, 10, 20))}.tmp").touch()
    (tmp_path / "topic=t" / "partition=x").mkdir()
    assert ends(tmp_path) == {("t", 0): 10}
    assert ends(tmp_path / "nowhere") == {}


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ((20, 30), "the offsets 10 to 20 .* are missing: one file ends at 10, the next begins"),
        ((5, 30), "the offsets 5 to 10 .* are there twice"),
    ],
)
def test_ranges_that_do_not_join(tmp_path, second, words):
    put(tmp_path, 0, 10)
    put(tmp_path, *second)
    with pytest.raises(CorruptArchive, match=words):
        archive_files.check(archive_files.contents(tmp_path), tmp_path)


def test_by_date_a_range_is_there_when_all_its_files_are(tmp_path):
    put(tmp_path, 0, 10, 1, 2, "date=2026-11-21")
    put(tmp_path, 0, 10, 2, 2, "date=2026-11-22")
    last = put(tmp_path, 10, 20, 2, 2, "date=2026-11-22")
    found = archive_files.contents(tmp_path)
    archive_files.check(found, tmp_path)
    assert found.ends() == {("t", 0): 10}
    put(tmp_path, 20, 30, 1, 1, "date=2026-11-22")
    with pytest.raises(CorruptArchive, match=r"offsets 10 to 20 have 1 of 2 files"):
        archive_files.check(archive_files.contents(tmp_path), tmp_path)
    archive_files.drop_unfinished(found)
    assert not last.exists()


def test_what_was_left_half_written_is_swept(tmp_path):
    kept = put(tmp_path, 0, 10)
    dated = put(tmp_path, 0, 10, below="date=2026-11-22", partition=1)
    for place in (kept.parent, dated.parent):
        (place / ".0123.tmp").touch()
    assert archive_files.sweep(tmp_path) == 2
    assert kept.exists()
    assert sorted(path.name for path in dated.parent.iterdir()) == [dated.name]


def test_what_is_fixed_is_kept(tmp_path):
    assert archive_files.read_description(tmp_path) is None
    description = Description({("t", 0): 5, ("t", 1): 0}, True, {"t": "-vv8_f7_AAAAAAAAAAAAAA"})
    archive_files.write_description(tmp_path, description)
    assert archive_files.read_description(tmp_path) == description


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 9}', '{"version": 1}'])
def test_a_description_that_is_none(tmp_path, text):
    (tmp_path / archive_files.DESCRIPTION).write_text(text)
    with pytest.raises(CorruptArchive, match=archive_files.DESCRIPTION):
        archive_files.read_description(tmp_path)


def test_one_run_at_a_time(tmp_path):
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from pyspark_barnabas.jobs.archive_files import locked\n"
        "with locked(Path(sys.argv[1])):\n    pass\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with archive_files.locked(tmp_path):
        ended = subprocess.run(command, cwd=PIPELINES, capture_output=True, text=True, check=False)
    assert "is locked by another run" in ended.stderr
    assert subprocess.run(command, cwd=PIPELINES, check=False).returncode == 0


def test_a_directory_is_a_path(tmp_path):
    assert archive_files.local(str(tmp_path)) == tmp_path
    assert archive_files.local(f"file://{tmp_path}") == tmp_path
    assert archive_files.local("here") == Path.cwd() / "here"
    with pytest.raises(BadOption, match=r"s3://bucket/x, expected a path"):
        archive_files.local("s3://bucket/x")
