"""Metrics that boards for Kafka ask for and that tell little of one node; no panel is empty.

Most are 0 by nature. `kafka_server_socketservermetrics_connections` is not: it counts connections
by the software that clients name; names beyond the first 200 count together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.exposition.family import Family, Kind, Sample, one
from broker.exposition.label_text import labels
from broker.exposition.scrape_view import ScrapeView

REPLICAS: Final = "kafka_server_replicamanager_"
RAFT: Final = "kafka_server_raftmetrics_"
CHANNEL: Final = "kafka_server_raftchannelmetrics_"
BROKER: Final = "kafka_server_brokertopicmetrics_"
FETCHER: Final = "kafka_server_replicafetchermanager_"
ALONE: Final = "there is one node, and it has the only replica"
NO_PEERS: Final = "the controller has no peers"
AS_SENT: Final = "batches are stored and served in the format in which they were sent"


def _zero(
    name: str, text: str, why: str, kind: Kind = Kind.GAUGE, also: tuple[str, ...] = ()
) -> Family:
    return Family(name, kind, text, one(lambda _: 0), (), also, why)


def _fetcher(name: str, text: str) -> Family:
    tail = labels(clientId="Replica", clientid="Replica")
    return Family(
        FETCHER + name, Kind.GAUGE, text, lambda _: ((tail, 0),), ("clientId", "clientid"),
        (), ALONE,
    )  # fmt: skip


def _blocked(view: ScrapeView) -> Iterator[Sample]:
    for name in tuple(view.traffic.listeners):
        yield labels(listener=name), 0


def _software(view: ScrapeView) -> Iterator[Sample]:
    for (name, version, listener), count in view.software.items():
        tail = labels(client_software_name=name, client_software_version=version, listener=listener)
        yield tail, count


BOARDS: tuple[Family, ...] = (
    Family(
        "kafka_server_socketservermetrics_connections", Kind.GAUGE,
        "Open connections by the software that their clients name.", _software,
        ("client_software_name", "client_software_version", "listener"),
    ),
    Family(
        "kafka_network_acceptor_acceptorblockedpercent", Kind.GAUGE,
        "Share of the time in which the acceptor was blocked.", _blocked, ("listener",),
        (), "the acceptor hands a connection over at once",
    ),
    _zero(
        f"{BROKER}producemessageconversions_total", "Produced batches that were converted.",
        AS_SENT, Kind.COUNTER, (f"{BROKER}producemessageconversionspersec",),
    ),
    _zero(
        f"{BROKER}fetchmessageconversions_total", "Fetched batches that were converted.",
        AS_SENT, Kind.COUNTER, (f"{BROKER}fetchmessageconversionspersec",),
    ),
    Family(
        f"{BROKER}invalidmagicnumberrecords_total", Kind.COUNTER,
        "Batches of formats that are refused.",
        one(lambda view: view.traffic.batches_of_old_magic), (),
        (f"{BROKER}invalidmagicnumberrecordspersec",),
    ),
    _zero(f"{REPLICAS}straypartitionscount", "Partitions that no topic has.", ALONE),
    _zero(
        f"{REPLICAS}straypartitionsmisclassifiedcount",
        "Partitions that were taken for stray ones.", ALONE,
    ),
    _zero(f"{REPLICAS}straypartitionstotalsize", "Bytes of stray partitions.", ALONE),
    _fetcher("maxlag", "The largest lag of a replica."),
    _fetcher("minfetchrate", "The slowest fetcher's requests a second."),
    _zero(f"{RAFT}current_vote", "The id voted for in this epoch.", NO_PEERS),
    _zero(f"{RAFT}append_records_rate", "Records a second from the leader.", NO_PEERS),
    _zero(f"{RAFT}fetch_records_rate", "Records a second fetched from the leader.", NO_PEERS),
    _zero(f"{RAFT}commit_latency_avg", "Milliseconds until peers have a record.", NO_PEERS),
    *(
        _zero(f"{CHANNEL}{name}_total", text, NO_PEERS, Kind.COUNTER)
        for name, text in (
            ("incoming_byte", "Bytes from peers."),
            ("outgoing_byte", "Bytes to peers."),
            ("request", "Requests to peers."),
            ("response", "Answers of peers."),
        )
    ),
)  # fmt: skip
