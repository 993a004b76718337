"""Output formats: one module `as_<name>` each, with `render(report, target)`."""
