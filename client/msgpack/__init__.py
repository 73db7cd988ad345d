"""The client of the msgpack dialect: a producer, a consumer, and members of groups.

Read `transport`, `producer` with `unacknowledged`, `consumer`, then `membership` and
`group_consumer`. From outside, use the three clients; it knows `protocol`, nothing else of ours.
"""
