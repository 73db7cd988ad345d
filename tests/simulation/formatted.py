"""Directories that Kafka's storage tool has formatted before the broker's first start.

They hold an identity, of old Kafkas without an id of the directory, and the feature levels to begin
with; Kafka does not sync that file, so it may be cut after a crash.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

from storage.files import filenames

SHARE: Final = 0.06  # of the histories
BOOTSTRAP: Final = Path(__file__).parents[1] / "golden/kafka_metadata/bootstrap.checkpoint"
META: Final = b"#\n#Mon Nov 23 14:24:00 UTC 2026\ncluster.id=formatted\nversion=1\nnode.id=1\n"
DIRECTORY_ID: Final = b"directory.id=hJkzQbXbSl-NgwF9t1tRwQ\n"


def formatted(chance: random.Random) -> dict[str, Any]:
    """Return what a data directory holds at first: mostly nothing."""
    if chance.random() >= SHARE:
        return {}
    content = {filenames.META_PROPERTIES: META + chance.choice((b"", DIRECTORY_ID))}
    bootstrap = BOOTSTRAP.read_bytes()
    if chance.random() < 0.8:
        end = chance.choice((len(bootstrap), len(bootstrap), 0, chance.randrange(len(bootstrap))))
        content[filenames.BOOTSTRAP_CHECKPOINT] = bootstrap[:end]
    return content
