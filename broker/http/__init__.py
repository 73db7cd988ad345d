"""HTTP for operators: one listener, its connections, and a table of routes.

Nothing outside may send to a connection; `HttpListener` starts and stops them, and a page returns
an `HttpAnswer`. Read http_messages, routes, http_connection, http_listener.
"""
