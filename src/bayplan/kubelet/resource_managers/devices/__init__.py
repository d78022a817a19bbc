"""Devices that plugins offer: the plugins, the inventory, and to whom devices are given."""
