"""The machine below: its mounts, processes, ports, programs and files, and what this process may do with them (Linux)."""
