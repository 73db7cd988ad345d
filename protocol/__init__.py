"""What bytes mean: records, messages and dialects. No I/O, no clock, no configuration."""
