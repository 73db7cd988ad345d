"""Tokens of OAUTHBEARER: whom the broker believes, and why.

Read `token_rules`, then `key_set`, `key_source`, `token_validator`. A token is believed for its
signature, by a key that an operator named, and for what it claims; never for how it was delivered.
"""
