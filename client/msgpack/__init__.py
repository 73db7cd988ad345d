"""The client of the msgpack dialect: a producer, a consumer, and members of groups.

Read `transport`, `producer`, `consumer`, then `group_consumer`. It knows `protocol`, nothing else.
"""
