"""How is Remora started without its console script? With `python -m remora`."""

from remora.operate.cli.main import main

if __name__ == "__main__":
    main(prog_name="remora")
