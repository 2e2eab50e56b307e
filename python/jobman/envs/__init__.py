"""The environments that a command may run in, each as a setup step of its own."""
