"""What keeps a long-lived process small: memos that are bounded, garbage collection, the allocator, and errors without their frames."""
