"""Engines that transfer bytes between ranks, and the collectives over them."""
