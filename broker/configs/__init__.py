"""Configs of topics, the broker and groups: how clients see and change them at run time.

Read `live`, `changes`, then `rows`. The package `config` declares the keys and their meaning.
"""
