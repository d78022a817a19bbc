"""HTTP beneath every server and client: pages, whom TLS trusts, connections whose protocol changes."""
