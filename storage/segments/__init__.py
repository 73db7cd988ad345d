"""Segments with their indexes, the row of them in a log, and look-ups by offset or time.

Read `segment`, `log_file`, `segment_indexes`, `batch_lookup`, `segment_reader`, then `row`. Only a
log changes it.
"""
