"""`python -m jobman.envs.conda <job>` is `jobman setup <job> conda`."""

from jobman.program import setup

if __name__ == "__main__":
    setup("conda")
