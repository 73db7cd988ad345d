"""From a directory to a log: loading after a clean stop, recovery after any other.

Read `log_opening` (many logs), `log_loading` (one log), then `recovery`. Nothing here runs later.
"""
