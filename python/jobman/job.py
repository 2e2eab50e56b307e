"""`python -m jobman.job <job> [--cmd-only]` is `jobman continue <job> [--cmd-only]`."""

import sys

from jobman.program import become

if __name__ == "__main__":
    become(["continue", *sys.argv[1:]])
