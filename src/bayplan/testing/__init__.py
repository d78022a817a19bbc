"""What tests of Bayplan, and of programs that use it, need: clocks, builders, conformance suites, a pytest plugin.

It ships with the product. Nothing outside tests imports it.
"""
