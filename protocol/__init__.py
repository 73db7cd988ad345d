"""The meaning of bytes: records, messages and dialects. No I/O, no clock, no configuration."""
