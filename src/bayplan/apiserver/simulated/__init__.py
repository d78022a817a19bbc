"""What answers for simulated nodes and pods, which run no programs and must never be dialled."""
