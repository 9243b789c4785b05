"""Gather and scatter: indexed reads and writes."""
