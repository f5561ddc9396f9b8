"""How is Remora started? By its console script, or with `python -m remora`."""

import gc


def main() -> None:
    """Run a command. While its modules are loaded nothing becomes garbage, so nothing looks for it until it runs."""
    gc.disable()
    from remora.operate.cli.main import main as run_command  # noqa: PLC0415

    run_command(prog_name="remora")


if __name__ == "__main__":
    main()
