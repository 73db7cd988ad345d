"""`barnabas-pipeline replay`: an archive back into topics, each partition in order.

A streaming query from the archive (`archive_reader`) into the streaming sink of
`format("barnabas")`, whose micro-batches find what they wrote before they were killed
(docs/decisions/0090). This module checks the topics before anything is written, creates missing
ones, records beside Spark's checkpoint what is replayed and how far the topics have come, and sums
up.

It refuses a topic that would not return the records as they are: one with too few partitions, one
that sets its own timestamps, one that has records already, or fewer than an earlier run left there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark_barnabas.jobs import archive_files
from pyspark_barnabas.jobs.archive_reader import ArchiveSource, listed
from pyspark_barnabas.jobs.arguments import add_bootstrap, assignment, bootstrap
from pyspark_barnabas.jobs.session import FORMAT, Outcome, Run, finish, plural, table
from pyspark_barnabas.offsets import Offsets, from_json, recreated, to_json, topic_ids_of
from pyspark_barnabas.options import sink_options
from pyspark_barnabas.source.stream import HAS_LIMITS
from pyspark_barnabas.wire.cluster import Cluster, cluster_id, create_topic, topic_configs
from pyspark_barnabas.wire.errors import BadOption, CorruptArchive, RecordsRefused
from pyspark_barnabas.wire.protocol import EARLIEST, LATEST

RECORDS_MAX: Final = 400_000  # of one micro-batch: what a kill costs, and what is read back
_STATE: Final = "_replay"  # in the archive, if it is writable
_PROMISE: Final = "replay.json"
# Of a topic that is created here. Records keep their timestamps, which may be old: a topic with a
# retention time would drop them at once.
_CONFIGS: Final = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}


@dataclass
class ReplayOptions:
    """The options of a replay; `sink` are options of format("barnabas"), without the topic."""

    root: Path
    sink: dict[str, str]
    topics: frozenset[str] | None = None
    to: str | None = None
    by_key: bool = False
    append: bool = False
    records_max: int = RECORDS_MAX
    state: Path | None = None


@dataclass
class Plan:
    """What is replayed: topic names by their names in the archive, and the archive's offsets."""

    names: dict[str, str]
    ends: Offsets
    begins: Offsets
    partitions: dict[str, int]
    state: Path
    created: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def offsets(self) -> int:
        """The number of offsets that the archive spans."""
        return sum(end - self.begins[at] for at, end in self.ends.items())


@dataclass
class Replayed:
    """What a run has written so far."""

    batches: dict[int, int] = field(default_factory=dict)  # records by micro-batch
    through: Offsets = field(default_factory=dict)
    appended: int = 0  # how many records the topics have gained

    def add(self, progress: Mapping[str, Any]) -> bool:
        """Add a micro-batch's progress; return whether it is new."""
        is_new = progress["batchId"] not in self.batches
        self.batches[progress["batchId"]] = progress["numInputRows"]
        end = progress["sources"][0]["endOffset"]
        self.through = from_json(end) if end else self.through
        return is_new

    @property
    def records(self) -> int:
        """How many records the sink received."""
        return sum(self.batches.values())

    @property
    def found(self) -> int:
        """How many of them the sink found in the topics, from an interrupted run.

        Too few if another producer has written to the topics meanwhile.
        """
        return max(0, self.records - self.appended)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the pipeline's own arguments."""
    parser.add_argument(
        "archive", metavar="DIR", help="a directory that `barnabas-pipeline archive` wrote"
    )
    add_bootstrap(parser)
    parser.add_argument(
        "--topic", metavar="NAME[,NAME]", help="topics of the archive; default: all"
    )
    parser.add_argument("--to", metavar="NAME", help="another name, for one topic")
    parser.add_argument(
        "--by-key", action="store_true",
        help="choose partitions by key, as a producer does, instead of the original ones",
    )  # fmt: skip
    parser.add_argument(
        "--append", action="store_true", help="start although the topic has records"
    )
    parser.add_argument(
        "--max-records", metavar="N", type=int, default=RECORDS_MAX,
        help=f"of one micro-batch, all partitions together; default: {RECORDS_MAX:,}",
    )  # fmt: skip
    parser.add_argument(
        "--state",
        metavar="DIR",
        help=f"where to keep the progress; default: DIR/{_STATE}/CLUSTER/NAME",
    )
    parser.add_argument(
        "--option", metavar="NAME=VALUE", action="append", default=[], type=assignment,
        help='an option of the sink of format("barnabas"), such as kafka.compression.type=zstd',
    )  # fmt: skip


def run(run: Run) -> Outcome:
    """Replay, and return the summary."""
    given = run.arguments
    if given.max_records < 1:
        raise BadOption(f"--max-records is {given.max_records}, expected at least 1")
    sink = dict(given.option)
    sink.setdefault("kafka.bootstrap.servers", bootstrap(given))
    topics = given.topic.split(",") if given.topic else None
    options = ReplayOptions(
        root=archive_files.local(given.archive),
        sink=sink,
        topics=frozenset(name.strip() for name in topics) if topics else None,
        to=given.to,
        by_key=given.by_key,
        append=given.append,
        records_max=given.max_records,
        state=archive_files.local(given.state) if given.state else None,
    )
    plan, done = replay(run, options)
    return outcome(plan, done)


def replay(run: Run, options: ReplayOptions) -> tuple[Plan, Replayed]:
    """Write the part of the archive that is not in the topics yet.

    Raises BadOption and RecordsRefused before anything is written, CorruptArchive at any time.
    """
    done = Replayed()
    with Cluster(sink_options(options.sink).cluster) as cluster:
        plan = _plan(cluster, options)
        for remark in plan.remarks:
            run.progress.say(remark)
        with archive_files.locked(plan.state):
            before = _bounds(cluster, plan, LATEST)
            query = _start(run.spark, options, plan)
            with run.progress.showing(lambda: _so_far(plan, done)):
                finish(query, lambda: _follow(cluster, query, plan, done))
            after = _bounds(cluster, plan, LATEST)
            done.appended = sum(after.values()) - sum(before.values())
    return plan, done


def _so_far(plan: Plan, done: Replayed) -> str:
    through = sum(done.through.get(at, begin) - begin for at, begin in plan.begins.items())
    return f"replayed {through:,} of {plan.offsets:,} offsets"


def _follow(cluster: Cluster, query: Any, plan: Plan, done: Replayed) -> None:
    """Add the query's progress, and record how far the topics have come."""
    news = [done.add(json.loads(progress.json)) for progress in query.recentProgress]
    if any(news):
        _keep(plan.state, _promise(cluster, plan))


# -- before anything is written --------------------------------------------------------------------


def _plan(cluster: Cluster, options: ReplayOptions) -> Plan:
    """List the archive, and check or create the topics."""
    description = archive_files.read_description(options.root)
    if description is None:
        raise BadOption(
            f"{options.root} has no {archive_files.DESCRIPTION}, so it is not an archive: give a "
            "directory that `barnabas-pipeline archive --to` wrote"
        )
    found = listed(options.root, options.topics)
    ends = found.ends()
    counts: dict[str, int] = {}
    for topic, partition in (*description.starts, *ends):
        if options.topics is None or topic in options.topics:
            counts[topic] = max(counts.get(topic, 0), partition + 1)
    if options.to is not None and len(counts) != 1:
        raise BadOption(
            f"--to gives one name, and {options.root} holds {', '.join(sorted(counts))}: choose "
            "one with --topic"
        )
    names = {topic: options.to or topic for topic in sorted(counts)}
    place = options.root / _STATE / (cluster_id(cluster) or "cluster") / "+".join(names.values())
    plan = Plan(
        names=names,
        ends=ends,
        begins={at: found.pieces[at][0].start for at in ends},
        partitions=counts,
        state=options.state or place,
    )
    is_begun = (plan.state / _PROMISE).exists()
    for topic, name in names.items():
        _check_topic(cluster, options, plan, topic, name)
    if not is_begun and not options.append:
        _require_empty(cluster, plan)
    _resume(cluster, options, plan)
    return plan


def _check_topic(
    cluster: Cluster, options: ReplayOptions, plan: Plan, topic: str, name: str
) -> None:
    """Create a missing topic; refuse one that would change or reject the records."""
    wanted = plan.partitions[topic]
    there = cluster.all_topics().get(name)
    if there is None:
        create_topic(cluster, name, wanted, _CONFIGS)
        plan.created.append(name)
        there = cluster.topics([name])[name]
    if len(there) < wanted and not options.by_key:
        raise RecordsRefused(
            f"{name} has {plural(len(there), 'partition')} and the archive's {topic} has {wanted}: "
            "add partitions, replay into another topic (--to), or let keys choose the partition "
            "(--by-key)"
        )
    configs = topic_configs(cluster, name, ["message.timestamp.type", "retention.ms"])
    if configs.get("message.timestamp.type") == "LogAppendTime":
        raise RecordsRefused(
            f"{name} has message.timestamp.type=LogAppendTime and would overwrite the timestamps: "
            "set it to CreateTime, at least for the replay"
        )
    if configs.get("retention.ms", "-1") != "-1":
        plan.remarks.append(
            f"{name} has retention.ms={configs['retention.ms']}: records keep their timestamps, "
            "and older ones expire at the broker's next check"
        )


def _require_empty(cluster: Cluster, plan: Plan) -> None:
    ends, begins = _bounds(cluster, plan, LATEST), _bounds(cluster, plan, EARLIEST)
    full = sorted(at for at in ends if ends[at] > begins[at])
    if full:
        topic, partition = full[0]
        raise RecordsRefused(
            f"{topic}-{partition} holds records already, up to offset {ends[full[0]]}: replay into "
            "another topic (--to), or after those records with --append"
        )


def _bounds(cluster: Cluster, plan: Plan, which: int) -> Offsets:
    found = cluster.topics(list(plan.names.values()))
    return cluster.list_offsets(
        {(name, index): which for name, indexes in found.items() for index in indexes}
    )


def _promise(cluster: Cluster, plan: Plan) -> dict[str, Any]:
    topic_ids = cluster.topic_ids(plan.names.values())
    return {"reached": to_json(_bounds(cluster, plan, LATEST), topic_ids)}


def _resume(cluster: Cluster, options: ReplayOptions, plan: Plan) -> None:
    """Record what is replayed and how; for a resumed replay, check that it is the same."""
    what = {
        "archive": str(options.root),
        "cluster": cluster_id(cluster),
        "topics": plan.names,
        "byKey": options.by_key,
    }
    kept = _kept(plan.state)
    if kept is None:
        plan.state.mkdir(parents=True, exist_ok=True)
        _keep(plan.state, what | _promise(cluster, plan))
        return
    for name, value in what.items():
        if kept.get(name) != value:
            raise BadOption(
                f"{plan.state} belongs to a replay with {name} {kept.get(name)}, and this one has "
                f"{value}: choose another --state, or remove that directory"
            )
    ends = _bounds(cluster, plan, LATEST)
    known, now = topic_ids_of(kept["reached"]), cluster.topic_ids(plan.names.values())
    for topic, topic_id in known.items():
        if now.get(topic, topic_id) != topic_id:
            raise RecordsRefused(
                f"{recreated(topic, topic_id, now[topic])}. Remove {plan.state} to replay from the "
                "beginning"
            )
    for at, reached in from_json(kept["reached"]).items():
        if ends.get(at, 0) < reached:
            raise RecordsRefused(
                f"{at[0]}-{at[1]} ends at offset {ends.get(at, 0)}, and the replay had reached "
                f"{reached}: the topic was created again. Remove {plan.state} to replay from "
                "the beginning"
            )


def _kept(state: Path) -> dict[str, Any] | None:
    path = state / _PROMISE
    try:
        found = json.loads(path.read_text())
        from_json(found["reached"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptArchive(f"{path} is not a replay's state: {error}") from None
    return dict(found)


def _keep(state: Path, changes: Mapping[str, Any]) -> None:
    """Update the recorded state, atomically."""
    archive_files.write_json(state, _PROMISE, (_kept(state) or {}) | dict(changes))


# -- the query -------------------------------------------------------------------------------------


def _start(spark: Any, options: ReplayOptions, plan: Plan) -> Any:
    from pyspark.sql.functions import col

    spark.dataSource.register(ArchiveSource)
    source = {
        "archive.directory": str(options.root),
        "archive.topics": ",".join(plan.names),
    }
    if HAS_LIMITS:
        source["maxOffsetsPerTrigger"] = str(options.records_max)
    columns = [col(name) for name in ("key", "value", "headers", "timestamp")]
    if not options.by_key:
        columns.append(col("partition"))
    sink = dict(options.sink)
    if len(plan.names) == 1:
        sink["topic"] = next(iter(plan.names.values()))
    else:
        columns.append(col("topic"))
    stream = spark.readStream.format(ArchiveSource.name()).options(**source).load()
    return (
        stream.select(*columns)
        .writeStream.queryName("replay")
        .format(FORMAT)
        .options(**sink)
        .option("checkpointLocation", (plan.state / archive_files.CHECKPOINT).as_uri())
        .trigger(availableNow=True)
        .start()
    )


def outcome(plan: Plan, done: Replayed) -> Outcome:
    """Return the summary of a run."""
    facts = {
        "records": done.records - done.found,
        "found": done.found,
        "batches": len(done.batches),
        "topics": plan.names,
        "made": plan.created,
        "remarks": plan.remarks,
        "through": to_json(done.through),
        "state": str(plan.state),
    }
    rows = []
    for topic, name in plan.names.items():
        mine = [at for at in plan.ends if at[0] == topic]
        offsets = sum(plan.ends[at] - plan.begins[at] for at in mine)
        rows.append((topic, name, plan.partitions[topic], offsets))
    written = plural(done.records - done.found, "record")
    found = f"; {plural(done.found, 'record')} of an earlier run were found" if done.found else ""
    lines = [
        f"{written} written in {plural(len(done.batches), 'micro-batch')}{found}.",
        *table(("of the archive", "topic", "partitions", "offsets"), rows),
    ]
    lines += [
        f"{name} was created and keeps its records forever (retention.ms=-1)."
        for name in plan.created
    ]
    return Outcome(facts=facts, lines=lines)
