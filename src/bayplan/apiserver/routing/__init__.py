"""Where requests go on to: endpoints of services, kubelets, programs in the place of a service."""
