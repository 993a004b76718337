"""Launch commands: parse what people type, check it against a version's flags, edit it, print it back."""
