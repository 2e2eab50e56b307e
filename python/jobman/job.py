"""`python -m jobman.job <job> [--cmd-only]` is `jobman run <job> [--cmd-only]`."""

import sys

from jobman.program import become

if __name__ == "__main__":
    become(["run", *sys.argv[1:]])
