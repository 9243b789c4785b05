"""The compiler: plain functions from graph to graph, and from a graph to groups of values computed together."""
