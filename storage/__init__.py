"""The log store: partitions as directories of segments, in Apache Kafka's on-disk format.

Read `log_state`, `log` (one partition), then `log_manager` (all of them). All of it is
synchronous: nothing here knows asyncio, sockets or requests.
"""
