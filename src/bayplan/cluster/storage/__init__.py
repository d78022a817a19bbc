"""The stores of a cluster: opened, measured, rewritten; and its default storage class."""
