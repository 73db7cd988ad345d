"""The state of a log's idempotent producers, and the snapshot files that keep it.

Read `producer_state`, `snapshot_format`, then `snapshot_files`. Only a log changes the state.
"""
