"""`python -m jobman.envs.venv <job>` is `jobman setup <job> venv`."""

from jobman.program import setup

if __name__ == "__main__":
    setup("venv")
