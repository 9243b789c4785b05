"""When things run: dynamic execution (`realize`), static execution (`compile`), and their settings (`config`)."""
