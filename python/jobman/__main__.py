"""`python -m jobman ...` is `jobman ...`."""

from jobman.program import main

if __name__ == "__main__":
    main()
