"""The judges: each says, at the end of a history, what it objects to.

A judge knows a part of what a broker promises. It is given what happened and objects in sentences;
an empty list is its consent. Judges change nothing and wait for nothing. Each has a test that shows
that it objects, to a state that is broken by hand.
"""
