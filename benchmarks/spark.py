"""Spark's own Kafka connector and ours, side by side.

    python -m benchmarks.spark --records 1000000 --rounds 5

Needs PySpark 4.2.0 (the version for which the connector's jars are available, see
`tests.interop.oracle.connector`), pyarrow, numpy, java, and the distribution in `pipelines/`. It
fills two topics of four partitions on its own broker, uncompressed: the given number of records of
100 bytes, and a fifth as many of 1 KiB. Then it runs each query with each of

    kafka      format("kafka"), Spark's connector
    wire       format("barnabas")

in alternating rounds, so that other load on the machine affects all alike. The first round does not
count. The queries are

    count      df.count()
    groupBy    counts per key, of 1,000 keys
    parquet    all columns to Parquet with snappy

It prints medians of seconds and of processor seconds (of the JVM, the Python workers and the broker
together), and the ratio kafka / wire of both, the median over the rounds: above 1, wire is faster.
It does so once with Spark's default settings and once with Unix sockets between the JVM and Python
(spark.python.unix.domain.socket.enabled), which do not affect the connector, because it has no
Python. `--floor` also measures how fast ready tables cross from Python into the query when nothing
is read; no Python source can be faster.

On a machine with other load, trust the ratios and not the seconds.
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
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import interpreter
from tests.interop.oracle import connector

ROOT = Path(__file__).parents[1]
PIPELINES = ROOT / "pipelines"
PARTITIONS = 4
KEYS = 1000
BATCH_BYTES = 16 * 1024  # the Java producer's default
FORMS = ("kafka", "wire")
SIZES = {100: 1, 1024: 5}  # bytes of a value, and what part of the records


def fill(
    address: str, topic: str, records: int, value_bytes: int, partitions: int = PARTITIONS
) -> None:
    """Write records of a size to all partitions, in batches as a Java producer makes them."""
    from pyspark_barnabas.wire import protocol
    from pyspark_barnabas.wire.brokers import ClusterOptions
    from pyspark_barnabas.wire.cluster import Cluster
    from pyspark_barnabas.wire.encode import Record, build_batch
    from pyspark_barnabas.wire.primitives import parse

    dice = random.Random(value_bytes)
    host, port = address.split(":")
    per_batch = max(1, BATCH_BYTES // value_bytes)
    with Cluster(ClusterOptions(((host, int(port)),), "bench", 30_000, 60_000)) as cluster:
        cluster.topics([topic], create=True)
        written = 0
        while written < records:
            batches: dict[tuple[str, int], bytearray] = {}
            for partition in range(partitions):
                made = [
                    Record(
                        b"key-%010d" % dice.randrange(KEYS),
                        dice.randbytes(value_bytes // 2) * 2,
                        1_700_000_000_000 + written + index,
                    )
                    for index in range(min(per_batch, records - written))
                ]
                written += len(made)
                if made:
                    batches[topic, partition] = build_batch(made)
            leader = cluster.leader(topic, 0)
            body = protocol.produce_request(-1, 30_000, batches)
            answer = parse(protocol.read_produce, leader.call(protocol.PRODUCE, body))
            assert {code for code, _ in answer.values()} == {0}, answer


def queries(directory: Path) -> dict[str, Callable[[Any], Any]]:
    """Return what is measured, by name."""

    def parquet(frame: Any) -> None:
        frame.write.mode("overwrite").parquet(str(directory / "out"))

    return {
        "count": lambda frame: frame.count(),
        "groupBy": lambda frame: frame.groupBy("key").count().collect(),
        "parquet": parquet,
    }


def session(jars: list[Path], sockets: str) -> Any:
    """Start Spark on two cores, with the connector's jars."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(map(str, jars)))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "2g")
        .config("spark.python.unix.domain.socket.enabled", sockets)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def frame(spark: Any, form: str, broker: Any, topic: str) -> Any:
    """Return the topic by one of the ways."""
    reader = spark.read.format("barnabas" if form == "wire" else form).option("subscribe", topic)
    return reader.option("kafka.bootstrap.servers", broker.address).load()


def cpu_seconds() -> float:
    """Return the processor time of this process and all below it: JVM, Python workers, broker."""
    below: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        process = int(path.name)
        below.setdefault(int(fields[1]), []).append(process)
        ticks[process] = sum(map(int, fields[11:15]))  # with those of children that have ended
    total, left = 0, [os.getpid()]
    while left:
        process = left.pop()
        total += ticks.get(process, 0)
        left += below.get(process, [])
    return total / os.sysconf("SC_CLK_TCK")


def measure(
    spark: Any,
    forms: tuple[str, ...],
    broker: Any,
    topic: str,
    rounds: int,
    asked: dict[str, Callable[[Any], Any]],
) -> None:
    """Print one line for each query."""
    for name, query in asked.items():
        seconds: dict[str, list[float]] = {form: [] for form in forms}
        cpu: dict[str, list[float]] = {form: [] for form in forms}
        for turn in range(rounds + 1):
            for form in forms if turn % 2 else forms[::-1]:
                begun, used = time.perf_counter(), cpu_seconds()
                query(frame(spark, form, broker, topic))
                if turn:
                    seconds[form].append(time.perf_counter() - begun)
                    cpu[form].append(cpu_seconds() - used)
        words = [
            f"{form} {statistics.median(seconds[form]):5.2f} s {statistics.median(cpu[form]):5.2f}"
            for form in forms
        ]
        words += [
            f"{one}/{other} {ratio(seconds[one], seconds[other]):4.2f} "
            f"{ratio(cpu[one], cpu[other]):4.2f}"
            for one, other in pairwise(forms)
        ]
        sys.stdout.write(f"  {name:8} {'   '.join(words)}\n")
        sys.stdout.flush()


def ratio(one: list[float], other: list[float]) -> float:
    """Return the median of the rounds' ratios: each pair ran within seconds of each other."""
    return statistics.median(a / b for a, b in zip(one, other, strict=True))


def main(arguments: list[str] | None = None) -> int:
    """Fill, measure, and clean up."""
    interpreter.announce()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sockets", choices=("default", "unix", "both"), default="both")
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--floor", action="store_true")
    parser.add_argument("--queries", default="count,groupBy,parquet")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(PIPELINES))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = f"{PIPELINES}:{ROOT}:{os.environ.get('PYTHONPATH', '')}"
    import pyspark

    from tests.support.broker_process import BrokerProcess

    try:
        jars = connector.jars(pyspark.__version__)
    except connector.ConnectorMissingError as missing:
        sys.stderr.write(f"no connector to compare with: {missing}\n")
        return 1
    directory = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    settings = {"num.partitions": str(options.partitions), "log.retention.ms": "-1"}
    forms = (*FORMS, "floor") if options.floor else FORMS
    asked = {name: queries(directory)[name] for name in options.queries.split(",")}
    modes = {"default": ["false"], "unix": ["true"], "both": ["false", "true"]}[options.sockets]
    try:
        with BrokerProcess(directory / "data", settings) as broker:
            for value_bytes, part in SIZES.items():
                count = options.records // part
                fill(broker.address, f"t{value_bytes}", count, value_bytes, options.partitions)
            for sockets in modes:
                spark = session(jars, sockets)
                if options.floor:
                    from benchmarks.spark_floor import FloorSource

                    spark.dataSource.register(FloorSource)
                sys.stdout.write(f"spark.python.unix.domain.socket.enabled={sockets}\n")
                for value_bytes, part in SIZES.items():
                    sys.stdout.write(f"{options.records // part} records of {value_bytes} bytes\n")
                    measure(spark, forms, broker, f"t{value_bytes}", options.rounds, asked)
                spark.stop()
    finally:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
