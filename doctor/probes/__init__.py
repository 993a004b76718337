"""The probes of `doctor check`: every module of this folder is one, and adding a file adds a probe."""
