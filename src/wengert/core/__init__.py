"""The foundation of all other packages: graph and nodes, dtypes, devices, errors, nested containers, evaluation."""
