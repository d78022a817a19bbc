"""Discovery documents: groups, versions and resources, plain and aggregated, as JSON and protobuf."""
