"""What writes share: options, names, errors of bodies and patches, and the fast paths for writes that repeat."""
