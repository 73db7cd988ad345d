"""Reading topics: the batch reader and the stream that Spark calls.

Read `reader`, then `stream`. Planning runs on the driver, reading on the executors.
"""
