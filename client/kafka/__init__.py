"""The commands' way to a broker by Kafka's protocol: one blocking connection, and what is asked.

Read `connection`, `admin`, then `groups`. No asyncio here: a command starts in milliseconds.
"""
