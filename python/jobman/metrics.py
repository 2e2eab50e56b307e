"""`jobman mark` for a program that can import this package; elsewhere the command does the same."""

import os
import re
import time

_name = re.compile(r"[A-Za-z0-9_./%@-]+")


def mark(**metrics: float) -> bool:
    """Reports metrics of the running job, such as `mark(step=100, loss=0.3)`, for `jobman plot` and `jobman show`.

    False outside of a job, and if the file cannot be written: neither may end a training. Raises ValueError or TypeError
    for a value that is no number.
    """
    pairs = [f"{name}={float(value)!r}" for name, value in metrics.items()]
    wrong = [name for name in metrics if _name.fullmatch(name) is None]
    if wrong:
        raise ValueError(f"not a name of a metric: {', '.join(wrong)}")
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
