"""What the transactional producers of both dialects share: errors, batches, explanations.

Nothing here waits or asks a broker. Read `errors`, then `endings`, then `unsent`.
"""
