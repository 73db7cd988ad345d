"""A whole broker under virtual time: one seed, one history.

Read `world`, `loop`, `pool`, `life`, then `history`. Nothing outside may import from here.
"""
