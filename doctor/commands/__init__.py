"""One module per subcommand, imported only when it runs."""
