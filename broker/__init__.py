"""The broker: the only package with tasks, sockets, clocks and signals.

Read `server`, then `network`, `dispatch`, `handlers`, `partitions`. Only `client.cli` imports it.
"""
