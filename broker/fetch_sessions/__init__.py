"""Fetch sessions (KIP-227): what a consumer has asked for is kept, and only what changes is said.

Outsiders use `FetchSessions` and, in the handler, the view of a `SessionFetch`; no others change a
session. Read `fetch_session`, `session_cache`, `session_fetch`, `session_handling`, in this order.
"""
