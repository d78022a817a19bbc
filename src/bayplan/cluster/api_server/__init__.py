"""What an API server is given that needs files, keys or other servers: who is let in, what is permitted, audited, encrypted and traced."""
