"""Which rights each API needs (`clauses`, declared in its row), and how they are held (`guard`).

Handlers call only `standing`, for requests that wait. Read `asking`, `clauses`, `guard`, then the
APIs that have rules of their own (`of_*`).
"""
