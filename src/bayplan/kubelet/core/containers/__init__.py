"""What a container sees, and what the runtime is told of it."""
