"""The client of the msgpack dialect: a producer, a consumer, and members of groups.

Read `transport`, `producer` with `unacknowledged`, `consumer`, then `membership` and
`group_consumer`; for transactions `async_transactional_producer`. It knows `protocol` and what both
clients share, nothing else of ours.
"""
