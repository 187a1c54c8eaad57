"""One thin file per subcommand: read, call, write, one summary."""
