"""Engines that carry bytes between ranks, and the collectives over them."""
