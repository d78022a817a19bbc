"""The pages of the documentation: every command is run, and what it prints is compared."""
