"""The msgpack dialect: the same messages for programs with nothing but a socket and msgpack.

`dialect` is the door; `reader` takes values off a frame, `decoder` and `encoder` turn message
classes into functions, `record_maps` turns record batches into maps and back. docs/msgpack.md is
the page for those who write the other side.
"""
