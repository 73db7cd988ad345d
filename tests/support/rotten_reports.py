"""Damaged data directories and the reports of `barnabas verify`, for tools that must agree with it.

    python -m tests.support.rotten_reports DIR [FLIPS]

Below DIR it makes a directory for each row of the table in tests/faults/test_damaged_directory.py,
and FLIPS directories of tests/support/rotten.py with one bit of a log or an index flipped, spread
over all regions. It prints a line of JSON for each: its name, its path, and the report.
"""

import json
import random
import sys
from pathlib import Path

from client.files.verify import Verification
from storage.files.os_filesystem import OsFileSystem
from tests.faults.test_damaged_directory import CASES, REFUSED
from tests.support import data_directory, rotten
from tests.support.rotten import Flip, Original

PER_FIELD = 8  # bits of each header field
PER_FILE = 8


def main() -> None:
    """Make the directories and print the reports."""
    place = Path(sys.argv[1])
    flip_count = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    data_directory.make(place / "all kinds of files")
    tell("all kinds of files", place / "all kinds of files")
    for ending in ("clean", "crashed"):
        sound = rotten.make(ending)
        make(place, f"{ending}, sound", sound)
        for case in [*CASES, *REFUSED]:
            files = dict(sound.files)
            if ending == "clean" or case.name != "snapshot: missing":
                make(place, f"{ending}, {case.name}", altered(sound, files, case.do))
        for flip in chosen(sound, flip_count // 2):
            files = sound.files | {flip.path: rotten.turned(sound.files[flip.path], flip)}
            make(place, f"{ending}, {flip}", Original(files))


def altered(sound: Original, files: dict[str, bytes], do: object) -> Original:
    """Return the directory after the damage `do`; unchanged if the damage is not possible."""
    assert callable(do)
    try:
        do(files)
    except KeyError:  # the file exists only after a clean stop
        return sound
    return Original(files)


def chosen(sound: Original, count: int) -> list[Flip]:
    """Return `count` flips of logs and indexes, the same in every run."""
    chance = random.Random(20)
    found = rotten.flips(sound, chance, per_field=PER_FIELD, per_file=PER_FILE)
    found = [flip for flip in found if flip.path.endswith((".log", "index"))]
    found = [flip for flip in found if not flip.path.startswith("__")]
    return sorted(chance.sample(found, min(count, len(found))), key=str)


def make(place: Path, name: str, original: Original) -> None:
    """Write a directory and print its report."""
    path = place / f"{len(list(place.iterdir())):04}"
    path.mkdir()
    original.write_to(path)
    tell(name, path)


def tell(name: str, path: Path) -> None:
    """Print the report of `barnabas verify` on a directory."""
    report = Verification(OsFileSystem()).run([str(path)])
    print(json.dumps({"name": name, "path": str(path), "report": report.as_json()}), flush=True)


if __name__ == "__main__":
    main()
