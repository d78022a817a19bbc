"""Controllers of services: endpoints, addresses and load balancers."""
