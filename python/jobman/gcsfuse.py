"""`python -m jobman.gcsfuse <job>` is `jobman setup <job> gcsfuse`."""

from jobman.program import setup

if __name__ == "__main__":
    setup("gcsfuse")
