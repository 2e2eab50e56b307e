"""jobman, from Python: `python -m jobman` is the command line, and a few modules are commands of their own."""
