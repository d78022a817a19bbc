"""The smallest changes that would place a pending pod: what can be changed, trying it, and the commands for it."""
