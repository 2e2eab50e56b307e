"""`jobman mark` for a program that can import this package; elsewhere the command does the same."""

import os
import re
import time
import warnings
from typing import List

_name = re.compile(r"[A-Za-z0-9_./%@-]+")


def mark(**metrics: float) -> bool:
    """Reports metrics of the running job, such as `mark(step=100, loss=0.3)`, for `jobman plot` and `jobman show`.

    Nothing here ends a training: a wrong name or value is left out with a warning, and the others are reported. False if
    nothing was reported: outside of a job, without a right value, and if the file cannot be written.
    """
    pairs: List[str] = []
    for name, value in metrics.items():
        pairs += _pair(name, value)
    file = os.environ.get("JOBMAN_METRICS")
    if not file or not pairs:
        return False
    line = f"{time.time_ns() // 1_000_000} {' '.join(pairs)}\n".encode()
    try:
        # One write of a file that is open for appending is atomic, so several processes may report at once.
        log = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(log, line)
        finally:
            os.close(log)
    except OSError:
        return False
    return True


def _pair(name: str, value: object) -> List[str]:
    if _name.fullmatch(name) is None:
        warnings.warn(f"jobman: {name!r} is not the name of a metric: use letters, digits and _ . / % @ -", stacklevel=3)
        return []
    try:
        return [f"{name}={float(value)!r}"]  # type: ignore[arg-type]
    except Exception as error:  # A tensor has exceptions of its own.
        warnings.warn(f"jobman: the metric {name!r} is not a number: {error}", stacklevel=3)
        return []
