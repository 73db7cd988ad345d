"""Compaction of one log: what is dirty, which records stay, and how files are swapped.

Read `cleanable`, `one_pass`, `copier`, then `swap`. The broker's maintenance street drives it.
"""
