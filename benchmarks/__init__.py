"""Benchmarks: Barnabas beside Apache Kafka under the same load, and its parts in isolation.

`python -m benchmarks.peers` (`make bench-peers`) starts both brokers, runs the cells of cells.py
and writes docs/performance.md. Timings belong here, not in tests.

    the comparison    peers; cells says what is measured, by load with raw, frames, crowds, or by
                      tools and librdkafka; life, growth and limits beside it
    its brokers       servers; its figures: results, metrics, table, page
    in process        bench_*: the parts of one broker; bench_turns uses turns
    two checkouts     two_trees, and bench_instructions, which counts and needs no quiet machine
    one subject each  transactions (with transaction_*), groups, tls, dialects, recovery, restart,
                      many_partitions, hostile, renegotiation, image, grep
    the console       console, watched (producers meanwhile), large_page
    refused logins    login_times within one process, login_sockets through sockets
    PySpark           spark, spark_sink, spark_floor
"""
