"""The command line, `headwater`."""

from headwater.cli.application import app


def main() -> None:
    """Runs the command that the program was started with, and ends the process with its exit code."""
    app()
