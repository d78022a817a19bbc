"""Questions to a planner about many pods: how many more fit, what stands in the way, what moves."""
