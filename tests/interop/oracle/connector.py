"""Spark's own Kafka connector as an oracle: four jars by Maven, for PySpark 4.2.0.

`jars()` returns their paths, for `spark.jars`. They are fetched one by one, without what each
would pull in besides, into `.oracle/connector` of the checkout, or looked for in the directory
that BARNABAS_CONNECTOR_JARS names. Where that cannot be done `ConnectorMissingError` says why.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]
JARS_VARIABLE = "BARNABAS_CONNECTOR_JARS"
SPARK = "4.2.0"
ARTIFACTS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)


class ConnectorMissingError(Exception):
    """The connector is not available on this machine; the text says what is missing."""


def jars(pyspark_version: str) -> list[Path]:
    """Return the connector's jars; raise ConnectorMissingError for another PySpark than theirs."""
    if pyspark_version != SPARK:
        raise ConnectorMissingError(f"the connector is for PySpark {SPARK}, not {pyspark_version}")
    named = os.environ.get(JARS_VARIABLE)
    directory = Path(named) if named else CHECKOUT / ".oracle" / "connector"
    wanted = [directory / "{1}-{2}.jar".format(*name.split(":")) for name in ARTIFACTS]
    for artifact, jar in zip(ARTIFACTS, wanted, strict=True):
        if not jar.exists():
            _fetch(artifact, directory)
    return wanted


def _fetch(artifact: str, directory: Path) -> None:
    if shutil.which("mvn") is None:
        raise ConnectorMissingError(f"its jars need mvn on the PATH, or {JARS_VARIABLE}=DIRECTORY")
    command = ["mvn", "-q", "-B"]
    steps = (
        ["dependency:get", f"-Dartifact={artifact}", "-Dtransitive=false"],
        ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={directory}"],
    )
    for step in steps:
        done = subprocess.run([*command, *step], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = (done.stdout + done.stderr)[-500:]
            raise ConnectorMissingError(f"mvn could not fetch {artifact}: {said}")
