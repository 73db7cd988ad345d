"""The life of a broker's process: the tasks it runs, the signals it obeys, how it stops.

Read `stop_signals`, `serving`, `shutdown`, then `process`. `broker.server` calls them in order.
"""
