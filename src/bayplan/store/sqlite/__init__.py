"""The SQLite store: one file, one writer, commits of many writes at once, checksums on every record."""
