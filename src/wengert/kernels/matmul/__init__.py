"""Matrix products and their epilogues."""
