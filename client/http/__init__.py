"""The HTTP listener of a broker as commands ask it: its JSON API and its metrics.

Nothing here prints. Read broker_http, then exposed.
"""
