"""Controllers of identities and rights: service accounts, tokens, certificates, aggregated roles."""
