"""The commands' way to a broker by Kafka's protocol: one blocking connection, and what is asked.

Read `connection`, `admin`, then `configs`, `groups` and `resets`. No asyncio here, and nothing of
the msgpack client: a command starts in milliseconds.
"""
