"""Clients of Go, Node and Java: the programs in `programs/`, each in its own language.

Every program creates or is given a topic, produces in the codecs of its client, reads in groups
and does what administrators do; it ends with 1, and says why, at the first surprise. Packages come
from the registries of their languages, in the versions named in `programs`; what cannot be had
skips its test with the reason.
"""

from pathlib import Path

import pytest

from tests.interop.go_program import fetch, franz_go, run
from tests.interop.oracle.kafka import libs, need_javac
from tests.support.broker_process import BrokerProcess

PROGRAMS = Path(__file__).parent / "programs"
KAFKAJS = ("kafkajs@2.2.4", "kafkajs-snappy@1.1.0")
JAVA_MODES = (
    "range", "range-static", "cooperative", "range-regex", "consumer", "consumer-static",
)  # fmt: skip
LOOK_FOR_LATE_ONES = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}

pytestmark = pytest.mark.interop


def test_franz_go(tmp_path: Path) -> None:
    program = franz_go(tmp_path)
    with BrokerProcess(tmp_path / "data", LOOK_FOR_LATE_ONES) as broker:
        lines = run(program, broker.address)
    assert lines == [
        "produced 500", "classic read 500", "next read 500", "administered", "transacted",
    ]  # fmt: skip


def test_kafkajs(tmp_path: Path) -> None:
    quietly = ("--silent", "--no-save", "--no-package-lock", "--ignore-scripts")
    fetch("npm", "install", *quietly, "--prefix", str(tmp_path), *KAFKAJS, cwd=tmp_path)
    with BrokerProcess(tmp_path / "data") as broker:
        lines = run(
            "node",
            str(PROGRAMS / "kafkajs" / "main.js"),
            broker.address,
            NODE_PATH=str(tmp_path / "node_modules"),
            KAFKAJS_NO_PARTITIONER_WARNING="1",
        )
    assert lines == ["produced 600", "readers read 600", "administered", "transacted"]


def test_groups_of_the_java_consumer(tmp_path: Path) -> None:
    jars = f"{libs()}/*"
    need_javac()
    source = PROGRAMS / "java" / "Groups.java"
    run("javac", "-proc:none", "-cp", jars, "-d", str(tmp_path), str(source))
    flags = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dlog4j2.level=OFF")
    with BrokerProcess(tmp_path / "data", {"num.partitions": "4"}) as broker:
        lines = run(
            "java", *flags, "-cp", f"{tmp_path}:{jars}", "Groups", broker.address, "t", *JAVA_MODES
        )
    totals = range(600, 600 + 100 * len(JAVA_MODES), 100)
    wanted = [f"{mode} read {n} twice 0" for mode, n in zip(JAVA_MODES, totals, strict=True)]
    assert lines == wanted
