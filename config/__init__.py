"""What can be set: every key declared once; parsers, documentation and checks derive from it."""
