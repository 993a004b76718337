"""One module per family of model architectures; each has a `FAMILY` and is found by looking here."""
