"""`python -m jobman.ssh <job>` is `jobman setup <job> ssh`."""

from jobman.program import setup

if __name__ == "__main__":
    setup("ssh")
