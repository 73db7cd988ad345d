"""Directories as Kafka formats them: most histories begin with nothing, some with an identity."""

import random

from storage.files import filenames, meta_properties
from tests.simulation.formatted import BOOTSTRAP, SHARE, formatted


def test_what_a_history_begins_with():
    contents = [formatted(random.Random(seed)) for seed in range(2_000)]
    made = [content for content in contents if content]
    assert SHARE / 2 < len(made) / len(contents) < 2 * SHARE
    known = {
        meta_properties.decode("meta.properties", content[filenames.META_PROPERTIES]).directory_id
        for content in made
    }
    assert len(known) == 2
    assert None in known
    sizes = {len(content.get(filenames.BOOTSTRAP_CHECKPOINT, b"none")) for content in made}
    assert sizes >= {0, 4, BOOTSTRAP.stat().st_size}
