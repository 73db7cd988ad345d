"""Serving a directory without changing it: which requests are refused, whose directory it is.

Read `refusals`, then `directory_identity`. No part of the broker asks this street whether it is
read-only: each looks at `barnabas.read.only`, or at `storage.home` for a log.
"""
