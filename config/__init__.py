"""The configuration: each key is declared once; parsers, checks and pages derive from it."""
