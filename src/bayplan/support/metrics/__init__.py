"""What a process counts, in Prometheus' text format: instruments, sums over processes, and what Linux says of the process."""
