"""Entry point of ``python -m balloonist``."""

from balloonist.cli import main

if __name__ == "__main__":
    main()
