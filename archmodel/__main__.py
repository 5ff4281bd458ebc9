"""`python -m archmodel` is the command `archmodel`."""

from archmodel.cli import main

if __name__ == "__main__":
    main()
