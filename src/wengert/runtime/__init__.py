"""When things run: dynamic execution (`realize`) and its settings (`config`)."""
