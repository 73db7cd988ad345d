"""One module per API: validate, act per partition, build the response."""
