"""Writing topics: a task's rows become batches, each sent once.

Read `writer`, then `outbox`. A task of a micro-batch is a producer that knows what it wrote.
"""
