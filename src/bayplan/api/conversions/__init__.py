"""The same object in another version of its group."""
