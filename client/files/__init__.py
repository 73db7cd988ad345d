"""Data files as the tools see them: dumped and verified, without a broker, opened for reading.

Read `batches` and `findings`, then `dump` or `verify`. From outside, use those two; only
`recorded_settings` writes.
"""
