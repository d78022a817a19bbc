"""What the proxy asks of its machine and changes on it: tables, connections, addresses, settings of the kernel."""
