"""What the popular boards for Kafka ask Prometheus, query by query, in a form of our own.

A row is `query | labels | metrics`: the query is asked for each of its metrics. `M` stands for the
metric with the labels by which the board chooses a cluster, and the labels of the row. Names,
labels, functions and groupings are those of the boards' panels and of their variables; where a
panel accepts the names of several exporters (`a or b or c`), the row has the names that we have.
The boards themselves are their authors', and not here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple


class Query(NamedTuple):
    """One query, and the metric that it asks for."""

    metric: str
    text: str


class Board(NamedTuple):
    """One board: the labels by which it chooses a cluster, and its rows."""

    where: str
    rows: str

    def queries(self) -> Iterator[Query]:
        """Yield every query, written out."""
        for row in self.rows.strip().replace("\n |", "|").splitlines():
            if row.startswith(" "):  # more metrics
                names = row
            else:
                shape, labels, names = (part.strip() for part in row.split("|"))
            selector = ",".join(filter(None, (self.where, labels)))
            for name in names.split():
                yield Query(name, shape.replace("M", f"{name}{{{selector}}}"))


STRIMZI: Final = 'namespace="local",strimzi_io_cluster="barnabas"'
STRIMZI_NODE: Final = f'{STRIMZI},kubernetes_pod_name=~"barnabas-.*"'
STRIMZI_JVM: Final = (
    'namespace="local",kubernetes_pod_name=~"barnabas-.*",strimzi_io_name="barnabas-kafka"'
)

BOARDS: Final[dict[str, Board]] = {
    "Strimzi, Kafka: the cluster": Board(
        STRIMZI,
        """
M||kafka_server_replicamanager_leadercount
count(M)||kafka_server_replicamanager_leadercount
sum(M)||kafka_controller_kafkacontroller_activecontrollercount
 kafka_server_replicamanager_partitioncount kafka_server_replicamanager_underreplicatedpartitions
 kafka_cluster_partition_atminisr kafka_cluster_partition_underminisr
 kafka_controller_kafkacontroller_offlinepartitionscount
sum(irate(M[5m]))||kafka_controller_controllerstats_uncleanleaderelections_total
""",
    ),
    "Strimzi, Kafka: a broker": Board(
        STRIMZI_NODE,
        """
M||kafka_cluster_partition_replicascount
M|topic=~".+"|kafka_log_log_size
M|topic=~".+",partition=~".*"|kafka_log_log_size
sum(irate(M[5m]))|topic=~".+",topic!=""|kafka_server_brokertopicmetrics_bytesin_total
 kafka_server_brokertopicmetrics_bytesout_total kafka_server_brokertopicmetrics_messagesin_total
 kafka_server_brokertopicmetrics_totalproducerequests_total
 kafka_server_brokertopicmetrics_failedproducerequests_total
 kafka_server_brokertopicmetrics_totalfetchrequests_total
 kafka_server_brokertopicmetrics_failedfetchrequests_total
sum(M*100) by (kubernetes_pod_name)||kafka_network_socketserver_networkprocessoravgidle_percent
 kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent
sum(irate(M[5m])) by (kubernetes_pod_name)||kafka_server_kafkaserver_linux_disk_write_bytes
 kafka_server_kafkaserver_linux_disk_read_bytes
sum(M) by (kubernetes_pod_name, listener)||kafka_server_socket_server_metrics_connection_count
""",
    ),
    "Strimzi: the process of a broker or a controller": Board(
        STRIMZI_JVM,
        """
sum(M) by (kubernetes_pod_name)|container="kafka"|process_open_fds
sum(M) by (kubernetes_pod_name)||jvm_memory_used_bytes jvm_threads_current
sum(rate(M[5m])) by (kubernetes_pod_name)||jvm_gc_collection_seconds_sum
 jvm_gc_collection_seconds_count
""",
    ),
    "Strimzi: the container": Board(
        'namespace="local"',
        """
sum(M) by (pod)|pod=~"barnabas-.*",container="kafka"|container_memory_usage_bytes
sum(rate(M[5m])) by (pod)|pod=~"barnabas-.*",container="kafka"|container_cpu_usage_seconds_total
sum(M) by (persistentvolumeclaim)|persistentvolumeclaim=~"data.*"
 |kubelet_volume_stats_available_bytes
""",
    ),
    "Strimzi, Kafka Exporter": Board(
        'namespace="local"',
        """
M||kafka_broker_info
M|strimzi_io_cluster="barnabas"|kafka_consumergroup_current_offset
 kafka_topic_partition_current_offset
count(M)|topic=~".*"|kafka_topic_partitions
sum(M)|topic=~".*"|kafka_topic_partitions kafka_topic_partition_replicas
 kafka_topic_partition_in_sync_replica kafka_topic_partition_under_replicated_partition
 kafka_cluster_partition_atminisr kafka_cluster_partition_underminisr
sum(M < bool 1)|topic=~".*"|kafka_topic_partition_leader_is_preferred
sum(rate(M[5m])) by (topic)|topic=~".*"|kafka_topic_partition_current_offset
sum(delta(M[5m])/300) by (consumergroup, topic)|consumergroup=~".+",topic=~".*"
 |kafka_consumergroup_current_offset
sum(M) by (consumergroup, topic)|consumergroup=~".+",topic=~".*"|kafka_consumergroup_lag
sum(M) by (consumergroup,partition,topic)|consumergroup=~".+",topic=~".*"|kafka_consumergroup_lag
 kafka_consumergroup_current_offset
sum(M) by (topic)|topic=~".*"|kafka_topic_partitions
sum(M) by (partition,topic)|topic=~".*"|kafka_topic_partition_current_offset
 kafka_topic_partition_oldest_offset
""",
    ),
    "Strimzi, KRaft: a node": Board(
        STRIMZI_NODE,
        """
sum(M) by (kubernetes_pod_name)||kafka_server_raftmetrics_append_records_rate
 kafka_server_raftmetrics_commit_latency_avg kafka_server_raftmetrics_current_leader
 kafka_server_raftmetrics_current_vote kafka_server_raftmetrics_current_epoch
max(M) by (kubernetes_pod_name, current_state)||kafka_server_raftmetrics_current_state
sum(irate(M[5m])) by (kubernetes_pod_name)||kafka_server_raftchannelmetrics_incoming_byte_total
 kafka_server_raftchannelmetrics_outgoing_byte_total
 kafka_server_raftchannelmetrics_request_total kafka_server_raftchannelmetrics_response_total
""",
    ),
    "Strimzi, KRaft: a node by its name": Board(
        STRIMZI_JVM,
        """
sum(M) by (kubernetes_pod_name)||kafka_server_raftmetrics_fetch_records_rate
 kafka_server_raftmetrics_high_watermark kafka_server_raftmetrics_log_end_offset
""",
    ),
    "Confluent, cluster: the controller": Board(
        'job="kafka-controller",env="local",instance=~".+"',
        """
M > 0||kafka_controller_kafkacontroller_activecontrollercount
sum(M)||kafka_controller_kafkacontroller_preferredreplicaimbalancecount
 kafka_controller_controllerstats_uncleanleaderelectionspersec
""",
    ),
    "Confluent, cluster: the brokers": Board(
        'job="kafka-broker",env="local",instance=~".+"',
        """
M||kafka_server_kafkaserver_brokerstate kafka_server_replicamanager_leadercount
 kafka_server_replicamanager_straypartitionstotalsize
 kafka_server_kafkaserver_linux_disk_read_bytes kafka_network_requestchannel_requestqueuesize
 kafka_network_acceptor_acceptorblockedpercent
 kafka_server_fetchsessioncache_numincrementalfetchsessions
 kafka_server_fetchsessioncache_incrementalfetchsessionevictionspersec
 kafka_coordinator_group_groupmetadatamanager_numgroups
 kafka_tier_tasks_archive_tierarchiver_bytespersec kafka_tier_tasks_archive_tierarchiver_totallag
 kafka_tier_tasks_tiertasks_numpartitionsinerror
count(M)||kafka_server_replicamanager_leadercount
sum(M)||kafka_server_replicamanager_partitioncount
 kafka_server_replicamanager_underreplicatedpartitions kafka_cluster_partition_underminisr
 kafka_controller_kafkacontroller_offlinepartitionscount
 kafka_server_replicamanager_straypartitionscount
 kafka_server_replicamanager_straypartitionsmisclassifiedcount
 kafka_coordinator_group_groupmetadatamanager_numgroupsstable
 kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance
 kafka_coordinator_group_groupmetadatamanager_numgroupsdead
 kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance
 kafka_coordinator_group_groupmetadatamanager_numgroupsempty
 kafka_server_brokertopicmetrics_producemessageconversionspersec
 kafka_server_brokertopicmetrics_fetchmessageconversionspersec kafka_log_log_tiersize
sum(rate(M[5m]))|topic!=""|kafka_server_brokertopicmetrics_bytesinpersec
 kafka_server_brokertopicmetrics_bytesoutpersec
sum without(instance,topic)(rate(M[5m]))|topic!=""|kafka_server_brokertopicmetrics_bytesinpersec
 kafka_server_brokertopicmetrics_messagesinpersec kafka_server_brokertopicmetrics_bytesoutpersec
sum without(topic)(rate(M[5m]))|topic!=""|kafka_server_brokertopicmetrics_messagesinpersec
 kafka_server_brokertopicmetrics_bytesoutpersec
sum(rate(M[5m]))||kafka_network_requestmetrics_requestspersec
sum(rate(M[5m]))|request="Produce"|kafka_network_requestmetrics_requestspersec
sum(rate(M[5m]))|request="FetchConsumer"|kafka_network_requestmetrics_requestspersec
sum(rate(M[5m]))|request="Fetch"|kafka_network_requestmetrics_requestspersec
sum(rate(M[5m]))|request="OffsetCommit"|kafka_network_requestmetrics_requestspersec
sum(rate(M[5m]))|request="Metadata"|kafka_network_requestmetrics_requestspersec
rate(M[5m])|error!="NONE"|kafka_network_requestmetrics_errorspersec
irate(M[5m])*100||process_cpu_seconds_total
sum without(area)(M)||jvm_memory_used_bytes
M|area="heap"|jvm_memory_bytes_max
sum without(gc)(rate(M[5m]))||jvm_gc_collection_seconds_sum
rate(M[5m])||kafka_server_kafkaserver_linux_disk_write_bytes
 kafka_server_replicamanager_isrshrinkspersec kafka_server_replicamanager_isrexpandspersec
 kafka_tier_tasks_archive_tierarchiver_retriespersec
max by(instance) (M)||kafka_network_requestchannel_responsequeuesize
1-M||kafka_network_socketserver_networkprocessoravgidlepercent
 kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate
sum(M) by (topic)||kafka_log_log_size
sum(M) by (instance)||kafka_log_log_size kafka_log_log_tiersize
 kafka_server_socketservermetrics_connection_count
 kafka_server_socketservermetrics_connection_creation_rate
 kafka_server_socketservermetrics_connection_close_rate
sum(M) by (listener)||kafka_server_socketservermetrics_connection_count
 kafka_server_socketservermetrics_connection_creation_rate
 kafka_server_socketservermetrics_connection_close_rate
sum(M) by (client_software_name, client_software_version)
 ||kafka_server_socketservermetrics_connections
M|clientid="Replica"|kafka_server_replicafetchermanager_minfetchrate
 kafka_server_replicafetchermanager_maxlag
M|quantile=~".+",request="Metadata"|kafka_network_requestmetrics_requestqueuetimems
 kafka_network_requestmetrics_totaltimems
""",
    ),
    **{
        f"Confluent, cluster: times of {request}": Board(
            f'job="kafka-broker",env="local",instance=~".+",quantile=~".+",request="{request}"',
            """
M||kafka_network_requestmetrics_requestqueuetimems kafka_network_requestmetrics_localtimems
 kafka_network_requestmetrics_remotetimems kafka_network_requestmetrics_responsequeuetimems
 kafka_network_requestmetrics_responsesendtimems
""",
        )
        for request in ("Produce", "Fetch", "FetchFollower")
    },
    "Confluent, topics": Board(
        'env=~"local"',
        """
avg(M)|job="kafka-controller"|kafka_controller_kafkacontroller_globaltopiccount
 kafka_controller_kafkacontroller_globalpartitioncount
topk(10, sum without(instance) (rate(M[5m])))|job="kafka-broker",topic=~".+"
 |kafka_server_brokertopicmetrics_messagesinpersec kafka_server_brokertopicmetrics_bytesinpersec
 kafka_server_brokertopicmetrics_bytesoutpersec
topk(10, sum(rate(M[5m])) by (topic))|job="kafka-broker",topic=~".+"
 |kafka_server_brokertopicmetrics_totalproducerequestspersec
 kafka_server_brokertopicmetrics_totalfetchrequestspersec
topk(10, sum(M) by (topic))|job="kafka-broker",topic=~".+"|kafka_log_log_size
 kafka_log_log_tiersize
sum(M) by (env)|job="kafka-broker",topic=~".+"|kafka_log_log_size kafka_log_log_tiersize
M|job="kafka-broker",instance=~".+",topic=~".+"|kafka_log_log_logstartoffset
 kafka_log_log_logendoffset kafka_log_log_size
sum by(topic) (M) - sum by(topic) (kafka_log_log_logstartoffset{job="kafka-broker"})
 |job="kafka-broker",instance=~".+",topic=~".+"|kafka_log_log_logendoffset
""",
    ),
    "Kafka Exporter (7589)": Board(
        'job="barnabas",instance=~".+",topic=~".+"',
        """
M|topic!="__consumer_offsets"|kafka_topic_partition_current_offset
sum(rate(M[1m])) by (topic)||kafka_topic_partition_current_offset
sum(M) by (consumergroup, topic)||kafka_consumergroup_lag
sum(delta(M[5m])/5) by (topic)||kafka_topic_partition_current_offset
sum(delta(M[5m])/5) by (consumergroup, topic)||kafka_consumergroup_current_offset
sum by(topic) (M)||kafka_topic_partitions
""",
    ),
    "Grafana's mixin, overview": Board(
        'job="integrations/kafka",kafka_cluster=~"barnabas",instance=~".+"',
        """
M||kafka_server_brokertopicmetrics_messagesin_total
sum by (kafka_cluster) (M)||kafka_controller_kafkacontroller_activecontrollercount
 kafka_controller_controllerstats_uncleanleaderelectionspersec
 kafka_controller_kafkacontroller_preferredreplicaimbalancecount
 kafka_server_replicamanager_partitioncount
 kafka_controller_kafkacontroller_offlinepartitionscount kafka_cluster_partition_underreplicated
 kafka_cluster_partition_underminisr
count by (kafka_cluster) (M)||kafka_server_kafkaserver_brokerstate
sum by (kafka_cluster) (rate(M[1m]))||kafka_server_brokertopicmetrics_bytesin_total
 kafka_server_brokertopicmetrics_bytesout_total kafka_server_brokertopicmetrics_messagesin_total
 kafka_server_brokertopicmetrics_producemessageconversions_total
 kafka_server_brokertopicmetrics_fetchmessageconversions_total
sum by (kafka_cluster,instance) (M)||kafka_controller_kafkacontroller_activecontrollercount
 kafka_server_kafkaserver_brokerstate kafka_server_replicamanager_partitioncount
 kafka_controller_kafkacontroller_offlinepartitionscount kafka_cluster_partition_underreplicated
 kafka_cluster_partition_underminisr kafka_server_replicamanager_isrexpandspersec
clamp_max(M, 1)||zookeeper_leaderuptime
clamp_max(M, 0)||zookeeper_numaliveconnections
sum by (kafka_cluster,instance) (rate(M[1m]))||kafka_server_brokertopicmetrics_bytesin_total
 kafka_server_brokertopicmetrics_bytesout_total kafka_server_brokertopicmetrics_messagesin_total
 kafka_server_replicamanager_isrshrinks_total
avg by (kafka_cluster,instance) (M)|quantile="0.95"
 |kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms
avg by (kafka_cluster,instance) (rate(M[1m]))|quantile="0.95"
 |kafka_server_sessionexpirelistener_zookeepersyncconnectspersec
 kafka_server_sessionexpirelistener_zookeeperexpirespersec
 kafka_server_sessionexpirelistener_zookeeperdisconnectspersec
 kafka_server_sessionexpirelistener_zookeeperauthfailurespersec
time()-M||process_start_time_seconds
avg by (kafka_cluster,instance) (M * 1000)||process_start_time_seconds
avg by (kafka_cluster,instance) (M)||process_resident_memory_bytes process_open_fds
 process_max_fds java_lang_operatingsystem_systemloadaverage
avg by (kafka_cluster,instance) (M) * 100||java_lang_operatingsystem_cpuload
avg by (kafka_cluster,instance) (rate(M[1m]) * 100)||process_cpu_seconds_total
avg by (kafka_cluster) (sum without (id) (M))|area="heap"|jvm_memory_bytes_used
 jvm_memory_bytes_committed jvm_memory_used_bytes
avg by (kafka_cluster) (sum without (id) (M))|area="nonheap"|jvm_memory_bytes_used
 jvm_memory_bytes_committed
avg by (kafka_cluster) (sum without (id) (M != -1))|area="heap"|jvm_memory_bytes_max
avg by (kafka_cluster) (sum without (id) (M != -1))|area="nonheap"|jvm_memory_bytes_max
avg by (kafka_cluster) (M)||jvm_classes_loaded jvm_threads_current jvm_threads_daemon
 jvm_threads_peak jvm_threads_deadlocked
sum by (state, kafka_cluster) (M)||jvm_threads_state
""",
    ),
    **{
        f"Grafana's mixin, overview: times of {request}": Board(
            'job="integrations/kafka",kafka_cluster=~"barnabas",instance=~".+",quantile="0.95",'
            f'request="{request}"',
            """
avg by (kafka_cluster,instance) (M)||kafka_network_requestmetrics_requestqueuetimems
 kafka_network_requestmetrics_localtimems kafka_network_requestmetrics_remotetimems
 kafka_network_requestmetrics_responsequeuetimems kafka_network_requestmetrics_responsesendtimems
""",
        )
        for request in ("Produce", "FetchFollower", "Fetch")
    },
    "Grafana's mixin, topics": Board(
        'kafka_cluster=~"barnabas",topic!="__consumer_offsets",topic=~".+"',
        """
max by (kafka_cluster,topic,partition) (M)||kafka_log_log_logstartoffset
 kafka_log_log_logendoffset kafka_log_log_size
sum by (kafka_cluster,topic,partition) (rate(M[1m]))||kafka_topic_partition_current_offset
sum by (kafka_cluster,topic) (rate(M[1m]))||kafka_topic_partition_current_offset
 kafka_server_brokertopicmetrics_bytesin_total kafka_server_brokertopicmetrics_bytesout_total
avg by (kafka_cluster,consumergroup,topic) (rate(M[1m]))|consumergroup=~".+"
 |kafka_consumergroup_current_offset
sum by (kafka_cluster,consumergroup,topic) (M)|consumergroup=~".+"|kafka_consumergroup_lag
 kafka_consumergroup_uncommitted_offsets
avg by (kafka_cluster,consumergroup,topic) (M)|consumergroup=~".+"|kafka_consumer_lag_millis
""",
    ),
}
