"""What all streets of the broker share: clock, threads, owners of loop work, requests, metrics.

Read `owners`, `blocking_pool`, `request`, then `steps`. Nothing here imports another street.
"""
