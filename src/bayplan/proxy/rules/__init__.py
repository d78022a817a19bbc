"""What the tables should hold, as functions of services and endpoints. Pure."""
