"""Reading topics: the batch reader and the stream, as Spark calls them.

Read `reader`, then `stream`. Planning runs on the driver, reading on the executors.
"""
