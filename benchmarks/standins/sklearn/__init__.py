"""What tiny-diffusion imports and does not use with the circle."""
