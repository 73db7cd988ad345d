"""The log store: partitions as directories of segments, in Apache Kafka's on-disk format.

Begin with `log` (one partition) and `log_manager` (all of them); the streets below serve these two.
Synchronous throughout: nothing here knows asyncio, sockets or requests.
"""
