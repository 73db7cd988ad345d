"""Kafka 4.3's configuration keys, from tests/golden/kafka_keys.tsv, to compare ours with."""

from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).parents[1] / "golden" / "kafka_keys.tsv"


class KafkaKey(NamedTuple):
    """A row; `last` is the update mode of a broker key, or the synonyms of a topic key."""

    scope: str
    name: str
    kind: str
    default: str
    importance: str
    last: str = ""


def rows(scope):
    lines = TABLE.read_text().splitlines()
    found = [KafkaKey(*line.split("\t")) for line in lines if not line.startswith("#")]
    return [row for row in found if row.scope == scope]


def default_text(row):
    """Return Kafka's default as text, in the form of config.values.text_of."""
    if row.kind == "LIST" and row.default.startswith("["):
        return ",".join(part.strip() for part in row.default[1:-1].split(",")).strip()
    return None if row.default == "null" else row.default
