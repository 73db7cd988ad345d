"""Groups of the classic protocol: the members agree among themselves, the broker is the notary."""
