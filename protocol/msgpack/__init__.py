"""The msgpack dialect: the same messages for programs with nothing but a socket and msgpack.

`dialect` is the door. A request is read three ways, each falling back on the next: `repetition`
knows a produce request by the bytes before its records; `compiler` makes straight-line readers of
message classes, for fields in their usual order and form, with `primitives` for what is less usual;
`decoder` makes readers that walk any frame, with `reader` taking the values off it, and alone say
what is wrong. `encoder` turns answers into maps, `record_maps` turns record batches into maps and
back. docs/msgpack.md is the page for authors of clients.
"""
