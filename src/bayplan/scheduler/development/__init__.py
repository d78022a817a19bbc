"""For authors of plugins: plugins from files, reloading while the scheduler runs, and one decision step by step."""
