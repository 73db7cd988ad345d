"""Benchmarks: Barnabas beside Apache Kafka under one load, and the parts of it by themselves.

`python -m benchmarks.peers` starts both brokers and prints the table; the bench_* modules measure
single packages in process. No timing stands in a test; it stands here.
"""
