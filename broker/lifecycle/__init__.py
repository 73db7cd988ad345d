"""How a broker's process behaves: what runs in it, what signals it obeys, how it stops.

Read `stop_signals`, `serving`, `shutdown`, then `process`. `broker.server` puts them in order.
"""
