"""Plugins about who may do what beyond authorization: nodes, certificates, owners, roles."""
