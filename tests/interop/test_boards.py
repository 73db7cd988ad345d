"""Boards for Kafka, asked through a real Prometheus: every metric that they ask for answers.

Debian's Prometheus scrapes a broker under load with the configuration of docs/grafana, which sets
the labels that the boards filter by. `BOARDS` lists, for each of the popular boards, the labels
that select a cluster and the metrics with the labels that their queries name; the boards themselves
are their authors'. `EMPTY` says which metrics one process without a JVM cannot have, and why.

Where Prometheus is not installed, nothing runs, and pytest says so.
"""

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from prometheus_client.parser import text_string_to_metric_families

from tests.interop.test_page import Served, free_port

pytestmark = [pytest.mark.interop]

ROOT = Path(__file__).parents[2]
SCRAPES = 4
GROUP, TOPIC = "billing", "orders"


class Board(NamedTuple):
    """One board: the labels by which it chooses a cluster, and its metrics with their labels."""

    where: str
    metrics: dict[str, str]


def rows(text: str) -> dict[str, str]:
    """Read lines of a metric and the labels that must not be empty."""
    pairs = (line.partition(" ") for line in text.strip().splitlines())
    return {name.strip(): labels.strip() for name, _, labels in pairs}


BOARDS: dict[str, Board] = {
    "Strimzi, Kafka": Board(
        'namespace="local",strimzi_io_cluster="barnabas"',
        rows("""
container_cpu_usage_seconds_total
container_memory_usage_bytes
jvm_gc_collection_seconds_count
jvm_gc_collection_seconds_sum
jvm_memory_used_bytes
jvm_threads_current
kafka_cluster_partition_atminisr
kafka_cluster_partition_replicascount
kafka_cluster_partition_underminisr
kafka_controller_controllerstats_uncleanleaderelections_total
kafka_controller_kafkacontroller_activecontrollercount
kafka_controller_kafkacontroller_offlinepartitionscount
kafka_log_log_size partition topic
kafka_network_socketserver_networkprocessoravgidle_percent
kafka_server_brokertopicmetrics_bytesin_total topic
kafka_server_brokertopicmetrics_bytesout_total topic
kafka_server_brokertopicmetrics_failedfetchrequests_total topic
kafka_server_brokertopicmetrics_failedproducerequests_total topic
kafka_server_brokertopicmetrics_messagesin_total topic
kafka_server_brokertopicmetrics_totalfetchrequests_total topic
kafka_server_brokertopicmetrics_totalproducerequests_total topic
kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent
kafka_server_kafkaserver_linux_disk_read_bytes
kafka_server_kafkaserver_linux_disk_write_bytes
kafka_server_replicamanager_leadercount
kafka_server_replicamanager_partitioncount
kafka_server_replicamanager_underreplicatedpartitions
kafka_server_socket_server_metrics_connection_count
kubelet_volume_stats_available_bytes
process_open_fds
"""),
    ),
    "Strimzi, Kafka Exporter": Board(
        'namespace="local"',
        rows("""
kafka_broker_info
kafka_cluster_partition_atminisr topic
kafka_cluster_partition_underminisr topic
kafka_consumergroup_current_offset consumergroup topic
kafka_consumergroup_lag consumergroup topic
kafka_topic_partition_current_offset topic
kafka_topic_partition_in_sync_replica topic
kafka_topic_partition_leader_is_preferred topic
kafka_topic_partition_oldest_offset topic
kafka_topic_partition_replicas topic
kafka_topic_partition_under_replicated_partition topic
kafka_topic_partitions topic
"""),
    ),
    "Strimzi, KRaft": Board(
        'namespace="local",strimzi_io_cluster="barnabas"',
        rows("""
container_cpu_usage_seconds_total
container_memory_usage_bytes
jvm_gc_collection_seconds_count
jvm_gc_collection_seconds_sum
jvm_memory_used_bytes
jvm_threads_current
kafka_server_raftchannelmetrics_incoming_byte_total
kafka_server_raftchannelmetrics_outgoing_byte_total
kafka_server_raftchannelmetrics_request_total
kafka_server_raftchannelmetrics_response_total
kafka_server_raftmetrics_append_records_rate
kafka_server_raftmetrics_commit_latency_avg
kafka_server_raftmetrics_current_epoch
kafka_server_raftmetrics_current_leader
kafka_server_raftmetrics_current_state
kafka_server_raftmetrics_current_vote
kafka_server_raftmetrics_fetch_records_rate
kafka_server_raftmetrics_high_watermark
kafka_server_raftmetrics_log_end_offset
kubelet_volume_stats_available_bytes
process_open_fds
"""),
    ),
    "Confluent, cluster": Board(
        'job="kafka-broker",env="local"',
        rows("""
jvm_gc_collection_seconds_sum
jvm_memory_bytes_max
jvm_memory_used_bytes
kafka_cluster_partition_underminisr
kafka_controller_controllerstats_uncleanleaderelectionspersec
kafka_controller_kafkacontroller_activecontrollercount
kafka_controller_kafkacontroller_offlinepartitionscount
kafka_controller_kafkacontroller_preferredreplicaimbalancecount
kafka_coordinator_group_groupmetadatamanager_numgroups
kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance
kafka_coordinator_group_groupmetadatamanager_numgroupsdead
kafka_coordinator_group_groupmetadatamanager_numgroupsempty
kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance
kafka_coordinator_group_groupmetadatamanager_numgroupsstable
kafka_log_log_size
kafka_log_log_tiersize
kafka_network_acceptor_acceptorblockedpercent
kafka_network_requestchannel_requestqueuesize
kafka_network_requestchannel_responsequeuesize
kafka_network_requestmetrics_errorspersec error
kafka_network_requestmetrics_localtimems quantile request
kafka_network_requestmetrics_remotetimems quantile request
kafka_network_requestmetrics_requestqueuetimems quantile request
kafka_network_requestmetrics_requestspersec request
kafka_network_requestmetrics_responsequeuetimems quantile request
kafka_network_requestmetrics_responsesendtimems quantile request
kafka_network_requestmetrics_totaltimems quantile request
kafka_network_socketserver_networkprocessoravgidlepercent
kafka_server_brokertopicmetrics_bytesinpersec topic
kafka_server_brokertopicmetrics_bytesoutpersec topic
kafka_server_brokertopicmetrics_fetchmessageconversionspersec
kafka_server_brokertopicmetrics_messagesinpersec topic
kafka_server_brokertopicmetrics_producemessageconversionspersec
kafka_server_fetchsessioncache_incrementalfetchsessionevictionspersec
kafka_server_fetchsessioncache_numincrementalfetchsessions
kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate
kafka_server_kafkaserver_brokerstate
kafka_server_kafkaserver_linux_disk_read_bytes
kafka_server_kafkaserver_linux_disk_write_bytes
kafka_server_replicafetchermanager_maxlag clientid
kafka_server_replicafetchermanager_minfetchrate clientid
kafka_server_replicamanager_isrexpandspersec
kafka_server_replicamanager_isrshrinkspersec
kafka_server_replicamanager_leadercount
kafka_server_replicamanager_partitioncount
kafka_server_replicamanager_straypartitionscount
kafka_server_replicamanager_straypartitionsmisclassifiedcount
kafka_server_replicamanager_straypartitionstotalsize
kafka_server_replicamanager_underreplicatedpartitions
kafka_server_socketservermetrics_connection_close_rate
kafka_server_socketservermetrics_connection_count
kafka_server_socketservermetrics_connection_creation_rate
kafka_server_socketservermetrics_connections
kafka_tier_tasks_archive_tierarchiver_bytespersec
kafka_tier_tasks_archive_tierarchiver_retriespersec
kafka_tier_tasks_archive_tierarchiver_totallag
kafka_tier_tasks_tiertasks_numpartitionsinerror
process_cpu_seconds_total
"""),
    ),
    "Confluent, topics": Board(
        'job="kafka-broker",env="local"',
        rows("""
kafka_controller_kafkacontroller_globalpartitioncount
kafka_controller_kafkacontroller_globaltopiccount
kafka_log_log_logendoffset topic
kafka_log_log_logstartoffset topic
kafka_log_log_size topic
kafka_log_log_tiersize topic
kafka_server_brokertopicmetrics_bytesinpersec topic
kafka_server_brokertopicmetrics_bytesoutpersec topic
kafka_server_brokertopicmetrics_messagesinpersec topic
kafka_server_brokertopicmetrics_totalfetchrequestspersec topic
kafka_server_brokertopicmetrics_totalproducerequestspersec topic
kafka_server_kafkaserver_brokerstate
"""),
    ),
    "Kafka Exporter (7589)": Board(
        'job="barnabas"',
        rows("""
kafka_consumergroup_current_offset topic
kafka_consumergroup_lag topic
kafka_topic_partition_current_offset topic
kafka_topic_partitions topic
"""),
    ),
    "Grafana's mixin, overview": Board(
        'job="integrations/kafka",kafka_cluster="barnabas"',
        rows("""
jvm_classes_loaded
jvm_memory_bytes_committed
jvm_memory_bytes_max
jvm_memory_bytes_used
jvm_threads_current
jvm_threads_daemon
jvm_threads_deadlocked
jvm_threads_peak
jvm_threads_state
kafka_cluster_partition_underminisr
kafka_cluster_partition_underreplicated
kafka_controller_controllerstats_uncleanleaderelectionspersec
kafka_controller_kafkacontroller_activecontrollercount
kafka_controller_kafkacontroller_offlinepartitionscount
kafka_controller_kafkacontroller_preferredreplicaimbalancecount
kafka_network_requestmetrics_localtimems quantile request
kafka_network_requestmetrics_remotetimems quantile request
kafka_network_requestmetrics_requestqueuetimems quantile request
kafka_network_requestmetrics_responsequeuetimems quantile request
kafka_network_requestmetrics_responsesendtimems quantile request
kafka_server_brokertopicmetrics_bytesinpersec
kafka_server_brokertopicmetrics_bytesoutpersec
kafka_server_brokertopicmetrics_fetchmessageconversionspersec
kafka_server_brokertopicmetrics_messagesinpersec
kafka_server_brokertopicmetrics_producemessageconversionspersec
kafka_server_kafkaserver_brokerstate
kafka_server_replicamanager_isrexpandspersec
kafka_server_replicamanager_isrshrinkspersec
kafka_server_replicamanager_partitioncount
kafka_server_sessionexpirelistener_zookeeperauthfailurespersec quantile
kafka_server_sessionexpirelistener_zookeeperdisconnectspersec quantile
kafka_server_sessionexpirelistener_zookeeperexpirespersec quantile
kafka_server_sessionexpirelistener_zookeepersyncconnectspersec quantile
kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms quantile
process_cpu_seconds_total
process_max_fds
process_open_fds
process_resident_memory_bytes
process_start_time_seconds
zookeeper_leaderuptime
zookeeper_numaliveconnections
"""),
    ),
    "Grafana's mixin, topics": Board(
        'job="integrations/kafka",kafka_cluster="barnabas"',
        rows("""
kafka_consumer_lag_millis consumergroup topic
kafka_consumergroup_current_offset consumergroup topic
kafka_consumergroup_uncommitted_offsets consumergroup topic
kafka_log_log_logendoffset topic
kafka_log_log_logstartoffset topic
kafka_log_log_size topic
kafka_server_brokertopicmetrics_bytesinpersec topic
kafka_server_brokertopicmetrics_bytesoutpersec topic
kafka_topic_partition_current_offset topic
"""),
    ),
}

EMPTY = {
    "jvm_": "there is no JVM",
    "container_": "cAdvisor's, of a cluster of Kubernetes",
    "kubelet_": "a kubelet's",
    "zookeeper_": "there is no ZooKeeper",
    "kafka_server_zookeeperclientmetrics_": "there is no ZooKeeper",
    "kafka_server_sessionexpirelistener_": "there is no ZooKeeper",
    "kafka_log_log_tiersize": "there is no tiered storage",
    "kafka_tier_tasks_": "there is no tiered storage",
}


def is_empty(name: str) -> bool:
    return name.startswith(tuple(EMPTY))


class Asked:
    """A Prometheus that has scraped a broker."""

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}/api/v1/query?"

    def query(self, text: str) -> list[Any]:
        with urllib.request.urlopen(
            self._base + urllib.parse.urlencode({"query": text}), timeout=20
        ) as answer:
            found = json.load(answer)
        assert found["status"] == "success", (text, found)
        result: list[Any] = found["data"]["result"]
        return result


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed: the boards were not asked")
    served = Served(tmp_path_factory.mktemp("boards") / "data")
    served.start()
    yield served
    served.kill()


@pytest.fixture(scope="module")
def asked(broker: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    home, port = tmp_path_factory.mktemp("prometheus"), free_port()
    text = (ROOT / "docs/grafana/prometheus.yml").read_text(encoding="utf-8")
    text = text.replace("127.0.0.1:9095", f"127.0.0.1:{broker.http}")
    text = text.replace("scrape_interval: 15s", "scrape_interval: 1s")
    (home / "prometheus.yml").write_text(text)
    shutil.copy(ROOT / "docs/grafana/alerts.yml", home)
    process = subprocess.Popen(
        ["prometheus", f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/data",
         f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
    )  # fmt: skip
    found = Asked(port)
    try:
        producer = work(broker, found)
        yield found
        producer.flush(10)  # it has stayed connected: some metrics are of open connections
    finally:
        process.terminate()
        process.wait(20)


def work(broker: Served, asked: Asked) -> Producer:
    """Produce, consume and commit, until the lag of the group has been scraped a few times.

    Returns the producer, whose connection is open.
    """
    settings = {"bootstrap.servers": f"127.0.0.1:{broker.kafka}"}
    producer = Producer({**settings, "client.id": "shop"})
    consumer = Consumer(
        {
            **settings,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    deadline = time.monotonic() + 90
    while not enough(asked):
        assert time.monotonic() < deadline, "Prometheus has not scraped what was done"
        for number in range(100):
            producer.produce(TOPIC, key=f"{number}", value="x" * 100)
        producer.flush(10)
        if (message := consumer.poll(0.2)) is not None and not message.error():
            consumer.commit(message=message, asynchronous=False)
    consumer.close()
    return producer


def enough(asked: Asked) -> bool:
    counted = 'min(count_over_time(kafka_consumer_lag_millis{consumergroup="billing"}[5m]))'
    try:
        found = asked.query(counted)
    except OSError:
        return False  # it is starting
    return bool(found) and float(found[0]["value"][1]) >= SCRAPES


@pytest.mark.parametrize("name", BOARDS)
def test_every_metric_of_a_board_answers(asked: Asked, name: str) -> None:
    board = BOARDS[name]
    silent = []
    for metric, labels in board.metrics.items():
        parts = [board.where, *(f'{label}!=""' for label in labels.split())]
        selector = f"{metric}{{{','.join(filter(None, parts))}}}"
        queries = [selector]
        if metric.endswith(("_total", "persec")):
            queries.append(f"rate({selector}[1m])")
        if not all(map(asked.query, queries)) and not is_empty(metric):
            silent.append(selector)
    assert silent == []


def test_what_is_said_to_be_empty_is_asked_for_and_empty(asked: Asked) -> None:
    names = {name for board in BOARDS.values() for name in board.metrics}
    for prefix in EMPTY:
        found = [name for name in names if name.startswith(prefix)]
        assert found, f"no board asks for {prefix}"
        assert [name for name in found if asked.query(name)] == []


def test_the_page_under_load_is_read_by_both_judges(broker: Served, asked: Asked) -> None:
    del asked  # it has worked
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.http}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    count = sum(len(family.samples) for family in text_string_to_metric_families(text))
    assert count == sum(not line.startswith("#") for line in text.splitlines())
    done = subprocess.run(
        ["promtool", "check", "rules", str(ROOT / "docs/grafana/alerts.yml")],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_our_own_alerts_and_board_find_their_metrics(asked: Asked) -> None:
    board = json.loads((ROOT / "docs/grafana/barnabas.json").read_text(encoding="utf-8"))
    silent = []
    for text in expressions(board):
        filled = text.replace("$__rate_interval", "1m").replace("$instance", ".*")
        if not asked.query(filled):
            silent.append(filled)
    assert silent == []


def expressions(found: Any) -> Iterator[str]:
    """Yield the queries of a board."""
    if isinstance(found, dict):
        for name, value in found.items():
            if name == "expr":
                yield value
            else:
                yield from expressions(value)
    elif isinstance(found, list):
        for one in found:
            yield from expressions(one)
