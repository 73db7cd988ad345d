"""Compacts one log: what is dirty, which records stay, how the new files replace the old.

Read `cleanable`, `one_pass`, `copier`, `outcomes`, then `swap`. `broker.maintenance` runs the
passes.
"""
