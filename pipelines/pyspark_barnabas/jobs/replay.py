"""`barnabas-pipeline replay`: an archive back into topics, each partition's records in their order.

A streaming query from the archive (`archive_reader`) into the streaming sink of
`format("barnabas")`, whose micro-batches find what they wrote before they were killed
(docs/decisions/0090). This module checks the topics before anything is written, makes those that
are missing, keeps beside Spark's checkpoint what was promised at the start, and sums up.

A topic that would not give the records back as they are is refused: too few partitions, a time of
its own on each record, records in it already, or fewer than an earlier run left there.
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
from pyspark_barnabas.offsets import Offsets, from_json, remade, to_json, topic_ids_of
from pyspark_barnabas.options import sink_options
from pyspark_barnabas.source.stream import HAS_LIMITS
from pyspark_barnabas.wire.cluster import Cluster, cluster_id, create_topic, topic_configs
from pyspark_barnabas.wire.errors import BadOption, CorruptArchive, RecordsRefused
from pyspark_barnabas.wire.protocol import EARLIEST, LATEST

RECORDS_MAX: Final = 400_000  # of one micro-batch: what a kill costs, and what is read back after
_STATE: Final = "_replay"  # of an archive, where it can be written to
_PROMISE: Final = "replay.json"
# Of a topic that is made here. Records keep their time, which may be long ago: a topic that expires
# records by it would drop them as soon as they are there.
_CONFIGS: Final = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}


@dataclass
class ReplayOptions:
    """What a replay is told: `sink` are options of format("barnabas"), without the topic."""

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
    """What is replayed: names of topics by their names in the archive, and how far they go."""

    names: dict[str, str]
    ends: Offsets
    begins: Offsets
    partitions: dict[str, int]
    state: Path
    made: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def offsets(self) -> int:
        """How many offsets the archive spans."""
        return sum(end - self.begins[at] for at, end in self.ends.items())


@dataclass
class Replayed:
    """What a run has written so far."""

    batches: dict[int, int] = field(default_factory=dict)  # records by micro-batch
    through: Offsets = field(default_factory=dict)
    appended: int = 0  # by how much the topics have grown

    def add(self, progress: Mapping[str, Any]) -> bool:
        """Take a micro-batch's progress; say whether it is news."""
        is_new = progress["batchId"] not in self.batches
        self.batches[progress["batchId"]] = progress["numInputRows"]
        end = progress["sources"][0]["endOffset"]
        self.through = from_json(end) if end else self.through
        return is_new

    @property
    def records(self) -> int:
        """How many records were given to the sink."""
        return sum(self.batches.values())

    @property
    def found(self) -> int:
        """How many of them the sink has found in the topics, from a run that was cut off.

        Too few, if somebody else has written to the topics meanwhile.
        """
        return max(0, self.records - self.appended)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the pipeline's own arguments."""
    parser.add_argument("archive", metavar="DIR", help="what `barnabas-pipeline archive` wrote")
    add_bootstrap(parser)
    parser.add_argument("--topic", metavar="NAME[,NAME]", help="of the archive; default all")
    parser.add_argument("--to", metavar="NAME", help="another name for the one topic")
    parser.add_argument(
        "--by-key", action="store_true",
        help="choose partitions by key, as a producer does, in the place of the original ones",
    )  # fmt: skip
    parser.add_argument(
        "--append", action="store_true", help="begin although the topic has records already"
    )
    parser.add_argument(
        "--max-records", metavar="N", type=int, default=RECORDS_MAX,
        help=f"of one micro-batch, all partitions together; default {RECORDS_MAX:,}",
    )  # fmt: skip
    parser.add_argument(
        "--state", metavar="DIR", help=f"how far the replay is; default DIR/{_STATE}/CLUSTER/NAME"
    )
    parser.add_argument(
        "--option", metavar="NAME=VALUE", action="append", default=[], type=assignment,
        help='an option of the sink of format("barnabas"), as kafka.compression.type=zstd',
    )  # fmt: skip


def run(run: Run) -> Outcome:
    """Replay, and say what was written."""
    given = run.arguments
    if given.max_records < 1:
        raise BadOption(f"--max-records is {given.max_records}, wanted at least 1")
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
    """Write what of the archive is not in the topics yet.

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
    """Take in what the query did, and keep how far the topics had come."""
    news = [done.add(json.loads(progress.json)) for progress in query.recentProgress]
    if any(news):
        _keep(plan.state, _promise(cluster, plan))


# -- before anything is written --------------------------------------------------------------------


def _plan(cluster: Cluster, options: ReplayOptions) -> Plan:
    """Read the archive's names, and check the topics or make them."""
    description = archive_files.read_description(options.root)
    if description is None:
        raise BadOption(
            f"{options.root} has no {archive_files.DESCRIPTION}, so it is no archive: give the "
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
    """Make the topic if it is not there; refuse one that does not keep what is written."""
    wanted = plan.partitions[topic]
    there = cluster.all_topics().get(name)
    if there is None:
        create_topic(cluster, name, wanted, _CONFIGS)
        plan.made.append(name)
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
            f"{name} has message.timestamp.type=LogAppendTime and would put its own time on each "
            "record: set it to CreateTime, for the replay at least"
        )
    if configs.get("retention.ms", "-1") != "-1":
        plan.remarks.append(
            f"{name} has retention.ms={configs['retention.ms']}: records keep their time, and "
            "those older than that expire as soon as the broker looks"
        )


def _require_empty(cluster: Cluster, plan: Plan) -> None:
    ends, begins = _bounds(cluster, plan, LATEST), _bounds(cluster, plan, EARLIEST)
    full = sorted(at for at in ends if ends[at] > begins[at])
    if full:
        topic, partition = full[0]
        raise RecordsRefused(
            f"{topic}-{partition} holds records already, up to offset {ends[full[0]]}: replay into "
            "another topic (--to), or behind those records with --append"
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
    """Keep what is replayed and how; for a replay begun before, check that it is the same."""
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
                f"{plan.state} is of a replay with {name} {kept.get(name)}, and this one has "
                f"{value}: give another --state, or remove that directory"
            )
    ends = _bounds(cluster, plan, LATEST)
    known, now = topic_ids_of(kept["reached"]), cluster.topic_ids(plan.names.values())
    for topic, topic_id in known.items():
        if now.get(topic, topic_id) != topic_id:
            raise RecordsRefused(
                f"{remade(topic, topic_id, now[topic])}. Remove {plan.state} to replay from the "
                "beginning"
            )
    for at, reached in from_json(kept["reached"]).items():
        if ends.get(at, 0) < reached:
            raise RecordsRefused(
                f"{at[0]}-{at[1]} ends at offset {ends.get(at, 0)}, and the replay had come to "
                f"{reached}: the topic was made anew. Remove {plan.state} to replay from the "
                "beginning"
            )


def _kept(state: Path) -> dict[str, Any] | None:
    path = state / _PROMISE
    try:
        found = json.loads(path.read_text())
        from_json(found["reached"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptArchive(f"{path} is not what a replay keeps there: {error}") from None
    return dict(found)


def _keep(state: Path, changes: Mapping[str, Any]) -> None:
    """Change what is kept, in one step."""
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
        "made": plan.made,
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
    found = f"; {plural(done.found, 'record')} of a run before were found" if done.found else ""
    lines = [
        f"{written} written in {plural(len(done.batches), 'micro-batch')}{found}.",
        *table(("of the archive", "topic", "partitions", "offsets"), rows),
    ]
    lines += [
        f"{name} was made here and keeps its records for ever (retention.ms=-1)."
        for name in plan.made
    ]
    return Outcome(facts=facts, lines=lines)
