"""Writing topics: a task's rows become batches, sent once each.

Read `writer`, then `outbox`. A task of a micro-batch is a producer that knows what it wrote.
"""
