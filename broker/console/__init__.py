"""The console: a page for operators, and the JSON API under /api/v1/ that it and commands use.

Nothing outside may call an endpoint; `door` checks each request and gives it to one. What clients
can do too is asked of the broker's own handlers (`inquiry`), under the visitor's rights. Read door,
endpoints, inquiry.
"""
