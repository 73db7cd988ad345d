"""The cluster's metadata: topics, partitions and configurations as records of a log.

Read `image`, `metadata_log`, `controller`, then `topic_life`. Only the controller changes an image.
"""
