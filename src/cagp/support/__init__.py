"""What every room uses: checks of input, memory, Ctrl-C, progress, threads, whole files."""
