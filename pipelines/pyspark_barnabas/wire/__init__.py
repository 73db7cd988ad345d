"""Kafka's protocol as executors speak it: messages, batches, one connection, one cluster.

Read `protocol`, `connection`, `cluster`, then `fetcher`. Nothing here imports pyspark.
"""
