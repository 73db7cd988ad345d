"""The command line, and the clients that it and the tests speak to a broker with."""
