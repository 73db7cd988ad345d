"""TLS of the listeners: from keys and files to contexts, and from certificates to names.

Read `key_material`, `server_tls`, then `tls_listeners`. Files are read at the start and in threads.
"""
