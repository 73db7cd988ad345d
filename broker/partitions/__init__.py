"""A partition in service: appends in order, group commit, fetches that read or wait.

Read `partition`, `append_queue`, `group_commit`, `purgatory`, then `fetch_reading`.
From outside, only the owners named in `partition` may touch a partition's three lists of waiters.
"""
