"""Configs of topics, broker and groups as they are shown and changed while the broker runs.

Read `live`, `changes`, then `rows`. What a key means is declared in the package `config`.
"""
