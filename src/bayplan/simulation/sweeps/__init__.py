"""Many independent runs (seeds of faults, ...) through one executor: in shards, resumable, each result kept once."""
