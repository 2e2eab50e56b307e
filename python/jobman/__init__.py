"""jobman, from Python: `connect` is a client of a server, `python -m jobman` the command line, and some modules are single
commands."""

from typing import TYPE_CHECKING, Any

from jobman.metrics import mark

if TYPE_CHECKING:
    from jobman.client import Client, ConfirmationRequired, JobmanError, connect

__all__ = ["Client", "ConfirmationRequired", "JobmanError", "connect", "mark"]


def __getattr__(name: str) -> Any:
    """The client is loaded when it is used: programs import this package to report metrics."""
    if name in __all__:
        from jobman import client

        return getattr(client, name)
    raise AttributeError(f"module 'jobman' has no attribute {name!r}")
