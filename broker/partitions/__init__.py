"""A partition in service: appends in order, group commit, fetches that read or wait.

Read `partition`, `append_queue`, `group_commit` with its `running_rounds`, `purgatory`,
`fetch_reading`, then `log_starts`.
From outside, only the owners named in `partition` may touch a partition's three lists of waiters.
"""
