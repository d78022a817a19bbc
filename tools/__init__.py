"""Scripts for the people who work on Bayplan; nothing here is installed."""
