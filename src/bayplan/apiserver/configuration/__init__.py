"""Configuration files of the group apiserver.config.k8s.io: strict decoding, and expressions in them."""
