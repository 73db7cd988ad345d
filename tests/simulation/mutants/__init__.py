"""Seeded bugs, and the machinery that tells whether the simulator finds them.

    mutant     what a seeded bug is: replacements of text in files of the product
    tables/    the bugs, one table a part of the product
    loading    loads the product with a bug in it; no file is written
    trial      one process: the histories of one bug, until one fails
    places     which histories run the code that a bug changes
    hunt       many bugs: processes for each, and what becomes of them
    results    what is known so far, in a file
    page       the table in docs/simulation.md

    python -m tests.simulation.mutants [NAMES] --seeds 5000 --jobs 2

A bug is a defect that the broker once had, or that somebody could write today. None only changes
speed or the words of a log line, and none is without effect. Nothing here may import the product
before `loading` has a bug in place.
"""
