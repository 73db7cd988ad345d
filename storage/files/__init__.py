"""The interface to the file system, and the names and small files of a data directory.

Read `filesystem`, `os_filesystem`, `filenames`, then `text_files`. Nothing here knows logs.
"""
