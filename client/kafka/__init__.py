"""The commands' way to a broker by Kafka's protocol: one blocking connection, and what is asked.

Read `connection`, `admin`, then `configs`, `groups`, `resets` and `transactions`; for transactions
of one's own, `transactional_producer`. No asyncio here: a command starts in milliseconds.
"""
