"""Consumer groups (KIP-848): the broker assigns partitions, each member reconciles on its own.

Read `state`, `draft`, `member_heartbeat`, `membership`, then `consumer_group`. Records
alone change the state, and only `membership` replaces it. Only `migration` knows classic groups.
"""
