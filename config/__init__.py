"""The configuration: each key is declared once; parsers, checks and pages derive from it.

Read `keys`, `broker_keys`, `topic`, then `load`. It performs no I/O.
"""
