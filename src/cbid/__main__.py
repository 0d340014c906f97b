"""Run the program with ``python -m cbid``."""

from cbid.cli import main

if __name__ == "__main__":
    main()
