"""One bit of a data directory is flipped: nothing wrong is served, nothing good is lost.

`tests.support.rotten` makes the directory and flips the bits, region by region, in every file.
After each flip a broker is started on it and asked for every batch, and `verify` is run on it:

- a batch is served byte by byte as it was written, or not at all (error 56); only the batch with
  the flipped bit may be refused;
- an idempotent batch that is sent again is answered with its offset, or refused;
- in other files a flipped bit costs only what is listed here: the broker refuses damaged metadata,
  and a digit of a checkpoint may become another digit, which cannot be detected;
- nothing is deleted: every byte of every log file is still there afterwards;
- `verify` finds the flip, names the file, and says what to do.
"""

import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.files.findings import NOTE, Finding
from client.files.verify import Verification
from storage.files.os_filesystem import OsFileSystem
from tests.support import rotten
from tests.support.rotten import DELETED_BEFORE, Flip, Original, Outcome
from tests.support.thorough import share_of

STORAGE, OUT_OF_RANGE = 56, 1
ENDINGS = ("clean", "killed")
# The last one: a digit may claim that metadata records are missing.
MAY_REFUSE = ("metadata", "meta.properties", "recovery-point-offset-checkpoint")
# A flipped bit in these texts may change a digit, a comment or a name into another valid one.
TEXTS = (
    "meta.properties", "log-start-offset-checkpoint", "recovery-point-offset-checkpoint",
    "leader-epoch-checkpoint", "cleaner-offset-checkpoint", ".kafka_cleanshutdown",
    "partition.metadata",  # the last character of an id has unused bits
)  # fmt: skip
SIZES = [
    pytest.param(1, 4, id="some"),
    pytest.param(8, 60, id="many", marks=pytest.mark.slow),
]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module", params=ENDINGS)
def original(request: pytest.FixtureRequest) -> Original:
    return rotten.make(request.param)


def judge(original: Original, sound: Outcome, flip: Flip, found: Outcome) -> list[str]:
    """Return what is wrong with the outcome of one flip."""
    if found.refused:
        return [] if flip.region.startswith(MAY_REFUSE) else [f"no start: {found.refused}"]
    wrong = list(found.wrong)
    topic = flip.path.partition("/")[0].removesuffix("-0")
    for name, codes in sound.codes.items():
        for offset, code in codes.items():
            now = found.codes[name][offset]
            if name == topic and offset == flip.batch_offset:
                if now not in (code, STORAGE):
                    wrong.append(f"{name}: the damaged batch at {offset} answers {now}")
            elif now != code and not _is_deleted(name, offset):
                wrong.append(f"{name}: the good batch at {offset} answers {now}")
    if found.retry[0] == 0 and found.retry != sound.retry:
        wrong.append(f"a batch sent again is appended again, at {found.retry[1]}")
    wrong += [f"{name} takes no more: {code}" for name, code in found.appended.items() if code]
    for path, content in original.files.items():
        if path.endswith(".log") and found.files.get(path, -1) < len(content):
            kept = sum(size for other, size in found.files.items() if "quarantine" in other)
            if found.files.get(path, 0) + kept < len(content):
                wrong.append(f"{path}: bytes are missing")
    return wrong


def _is_deleted(topic: str, offset: int) -> bool:
    return topic == "plain" and offset < DELETED_BEFORE


@pytest.mark.parametrize(("per_field", "per_file"), SIZES)
def test_nothing_wrong_is_served_and_nothing_good_is_lost(
    original: Original, per_field: int, per_file: int
) -> None:
    sound = rotten.outcome(original, None)
    assert not sound.refused
    assert not sound.wrong
    flips = rotten.flips(original, random.Random(6), per_field=per_field, per_file=per_file)
    assert len(flips) > 400
    failures = []
    for flip in share_of(flips):
        wrong = judge(original, sound, flip, rotten.outcome(original, flip))
        failures += [f"{flip}: {one}" for one in wrong]
    assert not failures, f"{len(failures)} of {len(flips)}:\n" + "\n".join(failures[:20])


def findings(place: Path) -> list[Finding]:
    """Return what verify finds in a directory, without the notes."""
    report = Verification(OsFileSystem()).run([str(place)])
    return [finding for finding in report.findings if finding.weight != NOTE]


@pytest.mark.parametrize(("per_field", "per_file"), SIZES)
def test_verify_finds_each_and_says_what_to_do(
    original: Original, tmp_path: Path, per_field: int, per_file: int
) -> None:
    original.write_to(tmp_path)
    assert findings(tmp_path) == []
    flips = rotten.flips(original, random.Random(9), per_field=per_field, per_file=per_file)
    missed = []
    for flip in share_of(flips):
        path = tmp_path / flip.path
        content = original.files[flip.path]
        path.write_bytes(rotten.turned(content, flip))
        found = findings(tmp_path)
        path.write_bytes(content)
        was = chr(content[flip.position])
        is_text = path.name in TEXTS and (was.isalnum() or was.isspace() or was in "_-")
        # The recovery point of the metadata log is never read.
        is_text |= flip.region == "metadata: timeindex"
        if not is_text and not any(_is_of(finding, path) for finding in found):
            missed.append(f"{flip}: {content[flip.position : flip.position + 1]!r}, {found}")
    assert not missed, f"{len(missed)} of {len(flips)}:\n" + "\n".join(missed[:20])


def _is_of(finding: Finding, path: Path) -> bool:
    """Return whether a finding names the file or its partition, and gives advice."""
    says_all = finding.found and finding.meaning and finding.remedy
    return bool(says_all) and finding.path in (str(path), str(path.parent))
