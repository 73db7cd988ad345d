"""The cluster's metadata: topics, partitions and configurations as records of a log."""
