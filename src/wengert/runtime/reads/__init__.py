"""What a function reads from outside, and what it changes there, found out while it is recorded."""
