"""How does a shell complete the words of `remora`? With a script that this command prints."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(*, shell: str) -> None:
    """Print the script that completes commands and options in SHELL. A new shell uses it.

    zsh reads it from a folder of fpath as _remora, fish from ~/.config/fish/completions/remora.fish.
    """
    found = get_completion_class(shell)
    assert found is not None, "click knows the shells that we offer"
    root = click.get_current_context().find_root()
    script = found(root.command, {}, "remora", "_REMORA_COMPLETE")
    click.echo(script.source_template % script.source_vars())
