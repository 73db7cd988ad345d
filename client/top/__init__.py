"""What `barnabas top` shows: samples of a broker, and the screen made of two of them.

The command decides where samples come from. Read snapshot, http_sampling, kafka_sampling, screen.
"""
