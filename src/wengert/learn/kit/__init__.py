"""The course kit: `variant` (what a term changes), `kit` (its folders), `slides` (the recitation's frames)."""
