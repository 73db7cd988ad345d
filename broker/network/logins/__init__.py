"""What a connection may do before its client has logged in, and how the login goes.

Read `sasl_gate`. A connection asks its gate about each frame; the processor makes gates for the
listeners that have logins, and for no others.
"""
