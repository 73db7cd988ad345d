"""Kafka's protocol as executors speak it: messages and batches, connections, a cluster.

Read `protocol`, `connection`, `cluster`, `fetcher`; then `batches`, `records`. No pyspark here.
"""
