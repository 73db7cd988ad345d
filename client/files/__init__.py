"""Data files as the tools see them: walked, shown and checked, without a broker."""
