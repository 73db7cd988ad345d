"""Where bytes rest: partition logs in Kafka's directory format. Synchronous, single-threaded."""
