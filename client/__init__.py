"""The command line, and the clients that it and the tests use.

Read `cli`, `commands`, then `kafka` and `msgpack`. The rest of the house does not import it.
"""
