"""Verbs that run one component, with the flags of the program that it stands for."""
