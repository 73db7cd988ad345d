"""What a log knows of its idempotent producers, and the snapshot files that keep it.

Read `producer_state`, `snapshot_format`, then `snapshot_files`. Only a log changes the state.
"""
