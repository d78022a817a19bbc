"""JSON as Go reads and writes it: its bounds, its form, and its words for what is wrong."""
