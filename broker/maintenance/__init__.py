"""The broker's background work: retention, compaction, checkpoints, watching free disk space.

Read `housekeeping`, then `log_cleaner`. No request waits for anything here.
"""
