"""``python -m tessella`` is the command line."""

from tessella.cli import main

if __name__ == "__main__":
    main(prog_name="tessella")
