"""Clusters in files: what a snapshot keeps, how it is read and written, anonymized, recorded over time, and brought to life again."""
