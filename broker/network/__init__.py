"""From an accepted socket to a framed request, and from an answer back to the socket.

Read `acceptor`, `processor`, `connection`, then `gathered_writes`. Nothing here knows topics.
"""
