"""The file system behind one interface, and the names and small files of a data directory.

Read `filesystem`, `filenames`, then `text_files`. Nothing here knows logs or segments.
"""
