"""placeholder"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """."""


def run(options: argparse.Namespace) -> int:
    """."""
    return 0
