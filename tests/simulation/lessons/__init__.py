"""Scenarios for people who learn."""
