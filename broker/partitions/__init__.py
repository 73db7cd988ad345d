"""A partition in service: appends in order, group commit, waiting fetches, walks over records.

Read `partition`, `append_queue`, `group_commit`, then `purgatory`. Sockets are not known here.
"""
