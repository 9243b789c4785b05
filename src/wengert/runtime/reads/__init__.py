"""Tracking what a function reads and changes outside while it is recorded."""
