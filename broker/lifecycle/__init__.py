"""The life of a broker's process: its environment, tasks and signals, and how it stops.

Read `environment`, `stop_signals`, `serving`, `shutdown`, then `process`: `broker.server` calls
them in order.
"""
