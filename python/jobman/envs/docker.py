"""`python -m jobman.envs.docker <job>` is `jobman setup <job> docker`."""

from jobman.program import setup

if __name__ == "__main__":
    setup("docker")
