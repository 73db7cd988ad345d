"""Turns directories into logs: loads them after a clean stop, recovers them after any other.

Only the log manager calls it. Read `log_opening` (many logs), `log_loading` (one), `recovery`.
"""
