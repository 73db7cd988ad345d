"""The streaming sinks side by side: ours, ours with exactlyOnce, and Spark's own.

    python -m benchmarks.spark_sink --records 1000000 --batches 5 --rounds 3

Needs PySpark 4.2.0 for Spark's sink, as `benchmarks.spark` does; with another PySpark only ours
run. A stream reads Parquet files with the columns key and value (14 and 100 bytes, two files and so
two tasks a micro-batch) and writes them to a topic of four partitions on its own broker, with each
sink's own defaults:

    plain      format("barnabas")
    once       format("barnabas") with exactlyOnce
    kafka      format("kafka"), Spark's connector

`--batches 50 --records 500`, say, shows what a micro-batch costs by itself. Rounds alternate, so
that other load on the machine affects all alike; the first round does not count. It prints the
medians of rows per second and of processor seconds (of the JVM, the Python workers and the broker
together), and each sink's ratios to plain, the medians over the rounds.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from benchmarks import interpreter
from benchmarks.spark import PARTITIONS, PIPELINES, ROOT, cpu_seconds, ratio, session
from tests.interop.oracle import connector

TASKS = 2
OPTIONS = {
    "plain": ("barnabas", {}),
    "once": ("barnabas", {"exactlyOnce": "true"}),
    "kafka": ("kafka", {}),
}


def fill(directory: Path, records: int, files: int) -> None:
    """Write the input."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    dice = random.Random(records)
    directory.mkdir()
    for number in range(files):
        count = records // files
        table = pa.table(
            {
                "key": [b"key-%010d" % dice.randrange(1000) for _ in range(count)],
                "value": [dice.randbytes(50) * 2 for _ in range(count)],
            }
        )
        parquet.write_table(table, directory / f"{number:04}.parquet")


def stream(spark: Any, form: str, address: str, directory: Path) -> None:
    """Write the input to a new topic, by one of the sinks."""
    name, options = OPTIONS[form]
    checkpoint = directory / f"checkpoint-{uuid.uuid4().hex}"
    query = (
        spark.readStream.schema("key binary, value binary")
        .option("maxFilesPerTrigger", TASKS)
        .parquet(str(directory / "input"))
        .writeStream.format(name)
        .option("kafka.bootstrap.servers", address)
        .option("topic", checkpoint.name)
        .options(**options)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def measure(spark: Any, forms: list[str], address: str, directory: Path, rounds: int) -> Any:
    """Return seconds and processor seconds of each sink's rounds."""
    seconds: dict[str, list[float]] = {form: [] for form in forms}
    cpu: dict[str, list[float]] = {form: [] for form in forms}
    for turn in range(rounds + 1):
        for form in forms if turn % 2 else forms[::-1]:
            begun, used = time.perf_counter(), cpu_seconds()
            stream(spark, form, address, directory)
            took, spent = time.perf_counter() - begun, cpu_seconds() - used
            sys.stdout.write(f"round {turn}: {form} {took:.1f} s, {spent:.1f} processor s\n")
            sys.stdout.flush()
            if turn:
                seconds[form].append(took)
                cpu[form].append(spent)
    return seconds, cpu


def main(arguments: list[str] | None = None) -> int:
    """Fill, measure, and clean up."""
    interpreter.announce()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(PIPELINES))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = f"{PIPELINES}:{ROOT}:{os.environ.get('PYTHONPATH', '')}"
    import pyspark

    from tests.support.broker_process import BrokerProcess

    jars, forms = [], ["plain", "once"]
    try:
        jars = connector.jars(pyspark.__version__)
        forms.append("kafka")
    except connector.ConnectorMissingError as missing:
        sys.stderr.write(f"no connector to compare with: {missing}\n")
    directory = Path(tempfile.mkdtemp(prefix="bench-spark-sink-"))
    settings = {"num.partitions": str(PARTITIONS), "log.retention.ms": "-1"}
    try:
        fill(directory / "input", options.records, options.batches * TASKS)
        with BrokerProcess(directory / "data", settings) as broker:
            spark = session(jars, "false")
            seconds, cpu = measure(spark, forms, broker.address, directory, options.rounds)
            spark.stop()
    finally:
        shutil.rmtree(directory)
    for form in forms:
        rows = options.records / statistics.median(seconds[form])
        sys.stdout.write(
            f"{form:6} {rows:9,.0f} rows/s {statistics.median(cpu[form]):6.2f} processor s   "
            f"{form}/plain: {ratio(seconds[form], seconds['plain']):4.2f} of the seconds, "
            f"{ratio(cpu[form], cpu['plain']):4.2f} of the processor seconds\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
