"""The test kit as its users have it: fixtures, real clients, and faults that these meet."""
