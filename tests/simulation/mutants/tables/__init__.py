"""The tables of seeded bugs, one a part of the product."""
