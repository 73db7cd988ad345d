"""Benchmarks: Barnabas beside Apache Kafka under the same load, and its parts in isolation.

`python -m benchmarks.peers` (`make bench-peers`) starts both brokers, runs the cells of cells.py
and writes docs/performance.md; the bench_* modules measure single packages in process. Timings
belong here, not in tests.
"""
