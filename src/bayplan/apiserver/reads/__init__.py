"""What reads share: the watch cache, watches, selectors and pages, and the forms in which objects are shown."""
