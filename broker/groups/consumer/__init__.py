"""Consumer groups of KIP-848: the broker assigns partitions, members follow at their own pace."""
