"""The Common Expression Language."""
