"""What the broker does by itself: retention, compaction, checkpoints, watching the disk's room.

Read `housekeeping`, then `log_cleaner`. Requests never wait for anything here.
"""
