"""jobman, from Python: `python -m jobman` is the command line, and some modules are single commands."""

from jobman.metrics import mark

__all__ = ["mark"]
