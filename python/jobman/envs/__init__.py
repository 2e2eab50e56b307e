"""The setup steps for environments in which a command may run."""
