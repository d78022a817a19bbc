"""Plugins about pods and what makes pods: what they may ask for, and what they are given."""
