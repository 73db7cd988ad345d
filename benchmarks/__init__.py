"""Benchmarks: Barnabas beside Apache Kafka under one load, and the parts of it by themselves.

`python -m benchmarks.peers` (`make bench-peers`) starts both brokers, runs the cells of cells.py
and writes docs/performance.md; the bench_* modules measure single packages in process. No timing
stands in a test; it stands here.
"""
