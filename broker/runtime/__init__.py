"""What all streets of the broker share: clock, threads, owners, requests, walks, metrics.

Read `owners`, `blocking_pool`, `request`, then `steps`. No module here imports another street.
From outside, only `broker.network` may set a request's `buffers` and `frame`.
"""
