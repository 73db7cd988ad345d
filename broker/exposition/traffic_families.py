"""The metrics of requests, records and connections, under Kafka's names."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator

from broker.exposition.family import Family, Kind, Sample, Samples, one
from broker.exposition.label_text import escaped, labels
from broker.exposition.scrape_view import (
    BYTES_IN,
    BYTES_OUT,
    FETCHES,
    PRODUCES,
    RECORDS,
    ScrapeView,
)
from broker.runtime.request_times import (
    LOCAL,
    QUEUE,
    REMOTE,
    RESPONSE_QUEUE,
    RESPONSE_SEND,
    TOTAL,
)
from broker.runtime.traffic import AnyVersions
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode

QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
SHOWN = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
BROKER = "kafka_server_brokertopicmetrics_"
REQUEST = "kafka_network_requestmetrics_"
CONSUMER, FOLLOWER = "FetchConsumer", "FetchFollower"  # all fetches, and none
ONE_NODE = "there is one node"
CODES = {int(code): code.name for code in ErrorCode}


def api_name(api_key: int) -> str:
    """Return the name of an API as Kafka's metrics have it."""
    return "".join(map(str.capitalize, ApiKey(api_key).name.split("_")))


def _by_topic(index: int) -> Samples:
    def samples(view: ScrapeView) -> Iterator[Sample]:
        yield "", view.totals[index]
        for name, counts in view.topics.items():
            yield f'{{topic="{escaped(name)}"}}', counts[index]

    return samples


def _failed(total: Callable[[ScrapeView], int], attribute: str) -> Samples:
    def samples(view: ScrapeView) -> Iterator[Sample]:
        yield "", total(view)
        for name in view.topics:
            found = view.failures(name)
            yield f'{{topic="{escaped(name)}"}}', getattr(found, attribute) if found else 0

    return samples


def _requests(view: ScrapeView) -> Iterator[Sample]:
    for api_key, counts in view.traffic.requests.items():
        pairs = counts.items() if isinstance(counts, AnyVersions) else enumerate(counts)
        for version, count in tuple(pairs):
            if count:
                yield labels(request=api_name(api_key), version=version), count
                if api_key == ApiKey.FETCH:
                    yield labels(request=CONSUMER, version=version), count
    yield labels(request=FOLLOWER, version=0), 0


def _request_count(view: ScrapeView, api_key: int) -> int:
    counts = view.traffic.requests.get(api_key, ())
    return sum(counts.values() if isinstance(counts, AnyVersions) else counts)


def _errors(view: ScrapeView) -> Iterator[Sample]:
    with_error: Counter[int] = Counter()
    for (api_key, code), count in sorted(view.traffic.errors.items()):
        with_error[api_key] += count
        yield labels(request=api_name(api_key), error=CODES.get(code, str(code))), count
    for api_key in view.traffic.requests:
        if count := _request_count(view, api_key):
            without = max(0, count - with_error[api_key])
            yield labels(request=api_name(api_key), error="NONE"), without


def _times(phase: int) -> Samples:
    def samples(view: ScrapeView) -> Iterator[Sample]:
        times = view.assembly.network.writes.times
        now_ns = view.services.clock.monotonic_ns()
        for api_key, phases in tuple((times.by_api if times else {}).items()):
            name = api_name(api_key)
            found = phases[phase]
            count = _request_count(view, api_key)
            values = found.quantiles(QUANTILES, now_ns)
            for shown in (name, CONSUMER) if api_key == ApiKey.FETCH else (name,):
                for quantile, value_ns in zip(SHOWN, values, strict=True):
                    yield f'{{request="{shown}",quantile="{quantile}"}}', value_ns / 1e6
                yield f'_count{{request="{shown}"}}', count
        for api_key in view.traffic.requests:
            if (times is None or api_key not in times.by_api) and _request_count(view, api_key):
                for quantile in SHOWN:  # none of so few was timed
                    yield f'{{request="{api_name(api_key)}",quantile="{quantile}"}}', math.nan
        for quantile in SHOWN:
            yield f'{{request="{FOLLOWER}",quantile="{quantile}"}}', 0

    return samples


def _connections(view: ScrapeView) -> dict[str, int]:
    return {name: found.accepted - found.closed for name, found in view.traffic.listeners.items()}


def _connection_families(prefix: str, label: str) -> tuple[Family, ...]:
    def per(value: Callable[[ScrapeView, str], int | float]) -> Samples:
        return lambda view: (
            (labels(listener=name, **{label: "0"}), value(view, name))
            for name in tuple(view.traffic.listeners)
        )

    names = ("listener", label)
    return (
        Family(
            f"{prefix}connection_count", Kind.GAUGE, "Open connections.",
            per(lambda view, name: _connections(view)[name]), names,
        ),
        Family(
            f"{prefix}connection_creation_rate", Kind.GAUGE,
            "Connections accepted a second, in the last minute.",
            per(lambda view, name: view.pulse.rates(name)[0]), names,
        ),
        Family(
            f"{prefix}connection_close_rate", Kind.GAUGE,
            "Connections ended a second, in the last minute.",
            per(lambda view, name: view.pulse.rates(name)[1]), names,
        ),
    )  # fmt: skip


def _counted(name: str, also: str, text: str, samples: Samples, *names: str) -> Family:
    return Family(f"{BROKER}{name}_total", Kind.COUNTER, text, samples, names, (BROKER + also,))


TIMES = (
    ("totaltimems", "from arrival to the write of the answer", TOTAL),
    ("requestqueuetimems", "in the request queue", QUEUE),
    ("localtimems", "in the handler", LOCAL),
    ("remotetimems", "waiting for an fsync, or for records to fetch", REMOTE),
    ("responsequeuetimems", "behind earlier answers of the connection", RESPONSE_QUEUE),
    ("responsesendtimems", "in the write of the answer", RESPONSE_SEND),
)

TRAFFIC: tuple[Family, ...] = (
    _counted("messagesin", "messagesinpersec", "Records appended.", _by_topic(RECORDS), "topic"),
    _counted("bytesin", "bytesinpersec", "Bytes appended.", _by_topic(BYTES_IN), "topic"),
    _counted("bytesout", "bytesoutpersec", "Bytes fetched.", _by_topic(BYTES_OUT), "topic"),
    _counted(
        "totalproducerequests", "totalproducerequestspersec",
        "Partitions in Produce requests.", _by_topic(PRODUCES), "topic",
    ),
    _counted(
        "totalfetchrequests", "totalfetchrequestspersec",
        "Partitions in Fetch requests.", _by_topic(FETCHES), "topic",
    ),
    _counted(
        "failedproducerequests", "failedproducerequestspersec",
        "Partitions in Produce requests that failed.",
        _failed(lambda view: view.traffic.failed_produces, "failed_produces"), "topic",
    ),
    _counted(
        "failedfetchrequests", "failedfetchrequestspersec",
        "Partitions in Fetch requests that failed.",
        _failed(lambda view: view.traffic.failed_fetches, "failed_fetches"), "topic",
    ),
    _counted(
        "bytesrejected", "bytesrejectedpersec", "Bytes of batches that were too large.",
        one(lambda view: view.traffic.bytes_rejected),
    ),
    _counted(
        "invalidmessagecrcrecords", "invalidmessagecrcrecordspersec",
        "Batches that were damaged.", one(lambda view: view.traffic.batches_corrupt),
    ),
    _counted(
        "nokeycompactedtopicrecords", "nokeycompactedtopicrecordspersec",
        "Records without a key for compacted topics.",
        one(lambda view: view.traffic.records_without_key),
    ),
    Family(
        f"{REQUEST}requests_total", Kind.COUNTER, "Requests, by API and version.", _requests,
        ("request", "version"), (f"{REQUEST}requestspersec",),
    ),
    Family(
        f"{REQUEST}errors_total", Kind.COUNTER,
        "Error codes in answers, by API; NONE: requests without one.", _errors,
        ("request", "error"), (f"{REQUEST}errorspersec",),
    ),
    *(
        Family(
            REQUEST + name, Kind.SUMMARY,
            f"Milliseconds {text}: quantiles of the last two minutes, of timed requests; the"
            " count is exact.",
            _times(phase), ("request", "quantile"),
        )
        for name, text, phase in TIMES
    ),
    Family(
        "kafka_network_requestchannel_requestqueuesize", Kind.GAUGE, "Requests queued.",
        one(lambda view: len(view.assembly.network.queue)),
    ),
    Family(
        "kafka_network_requestchannel_responsequeuesize", Kind.GAUGE,
        "Requests in flight: queued, waiting or being answered.",
        one(lambda view: sum(len(c.slots) for p in view.processors for c in p.connections)),
    ),
    Family(
        "kafka_network_socketserver_networkprocessoravgidle_percent", Kind.GAUGE,
        "Share of the last minute in which the loop was idle, 0 to 1.",
        one(lambda view: 1 - view.pulse.busy()), (),
        ("kafka_network_socketserver_networkprocessoravgidlepercent",),
    ),
    Family(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", Kind.GAUGE,
        "Share of the last minute in which the loop was idle, 0 to 1.",
        one(lambda view: 1 - view.pulse.busy()), (),
        (
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate",
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_total",
        ),
    ),
    *_connection_families("kafka_server_socket_server_metrics_", "networkProcessor"),
    *_connection_families("kafka_server_socketservermetrics_", "network_processor"),
)  # fmt: skip
