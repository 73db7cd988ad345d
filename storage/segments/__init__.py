"""One segment with its indexes, the row of them in a log, and finding an offset or a time in it.

Read `segment`, `log_file`, `offset_index`, `segment_reader`, then `row`. Only a log changes a row.
"""
