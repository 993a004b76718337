"""What probes share: results, the context they look at, and children that cannot hang the check."""
