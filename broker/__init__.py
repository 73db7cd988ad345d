"""When things happen: the only package with tasks, sockets, clocks and signals."""
