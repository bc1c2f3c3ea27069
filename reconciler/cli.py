"""The command `reconciler`."""


def main() -> None:
    """Run the command line."""
