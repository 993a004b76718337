"""Run the command line as `python -m doctor`."""

from doctor.cli import run

if __name__ == "__main__":
    run()
