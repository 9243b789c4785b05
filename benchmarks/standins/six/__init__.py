"""What the programs use of six."""
