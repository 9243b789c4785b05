"""The ground that everything stands on: graph and nodes, dtypes, devices, errors, nested containers, evaluation."""
