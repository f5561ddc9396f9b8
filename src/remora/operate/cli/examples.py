"""How is each command called, and what happens next? One example and one sentence, shown at the end of its help.

The first help has a line or two for each group of commands, so that it fits a screen of 24 lines.
"""

from typing import Final

import click

# The groups of the first help: each command with what it is for.
GROUPS: Final[dict[str, dict[str, str]]] = {
    "Set up": {
        "init": "configuration, cost",
        "check": "can it work?",
        "try": "a source",
        "notify": "a test notice",
        "completion": "for a shell",
    },
    "Collect": {
        "up": "the service and its console",
        "catchup": "the history, once",
        "run": "one run over a listed source",
        "worker": "more processes",
        "import": "a dump",
        "verify": "a random sample, again",
    },
    "Watch": {"status": "complete, fresh, polite, working?", "gaps": "what is owed"},
    "Read": {
        "show": "one item or thread",
        "search": "words",
        "query": "SQL",
        "changes": "what is new",
        "export": "files",
        "mcp": "for an assistant",
    },
    "Keep": {"store": "backup, compact, copy, migrate, repair, stats"},
    "Practise": {"simulate": "a provider on this machine, with faults"},
}

# By the words of the command: an example, and what happens next.
EXAMPLES: Final[dict[str, tuple[str, str]]] = {
    "init": ("remora init hackernews --ceiling 100/s", "Next: remora check, then remora up."),
    "check": ("remora check --offline", "Next: remora up, if nothing is bad."),
    "try": ("remora try chats", "Next: change the declaration and try again, or remora up."),
    "notify": ("remora notify", "A notice arrives by every channel of [notify], or the log says why not."),
    "up": ("remora up --listen 127.0.0.1:8700", "Next: open the console, or run remora status in another terminal."),
    "worker": (
        "remora worker --config /etc/remora/remora.toml",
        "It shares one ceiling with all others; stop it any time.",
    ),
    "catchup": ("remora catchup --limit 10000", "Stop it any time; the next call continues where it stopped."),
    "run": ("remora run chats --max-seconds 900", "What it could not fetch is owed, and the next run asks for it."),
    "status": ("remora status --watch", "Next: remora gaps shows what waits for a retry, and why."),
    "gaps": ("remora gaps --state dead", "Next: remora gaps replay makes them due now."),
    "gaps replay": ("remora gaps replay --reason timeout", "They are fetched at the pace; nothing goes faster."),
    "show": ("remora show 8863", "Next: remora show 8863 --history shows earlier revisions."),
    "search": ('remora search "kernel type:story" --order score', "Next: remora show ID prints the thread."),
    "query": ('remora query "SELECT count(*) FROM items"', "Nothing is changed; docs/tables.md lists the tables."),
    "changes": ("remora changes --follow", "It prints what is new as it comes, until Ctrl-C."),
    "export": (
        "remora export --format parquet --out items.parquet",
        "Other programs read the files; the mirror stays.",
    ),
    "import": ("remora import items.ndjson", "Next: remora up fetches what the dump did not hold."),
    "verify": ("remora verify", "It says how many items can be missing at most, and sends few requests."),
    "mcp": (
        "remora mcp --store sqlite:///remora.db",
        "An assistant that starts it can read the mirror, and nothing else.",
    ),
    "store": ("remora store stats", "Next: remora store COMMAND --help."),
    "store backup": (
        "remora store backup backups/remora-monday.db",
        "To restore it: stop the service, put the file in the store's place, start it.",
    ),
    "store copy": (
        "remora store copy sqlite:///remora.db postgresql://user@host/database",
        "Next: write the new address into remora.toml.",
    ),
    "store compact": ("remora store compact", "Next: remora store stats shows the new size."),
    "store migrate": ("remora store migrate", "An older version refuses the store afterwards."),
    "store repair": ("remora store repair", "Next: remora status."),
    "store stats": ("remora store stats --json", "It only reads, and works beside a service."),
    "simulate": ("remora simulate --items 3000", "Next, in another terminal: remora up --url http://127.0.0.1:8612/v0"),
    "completion": (
        "remora completion bash > ~/.remora-completion",
        'Next: add "source ~/.remora-completion" to ~/.bashrc and open a new shell.',
    ),
}


def add_example(command: click.Command, words: tuple[str, ...]) -> None:
    """End the help of this command, and of every command below it, with its example."""
    if (found := EXAMPLES.get(" ".join(words))) is not None:
        # \b keeps click from joining the lines.
        command.epilog = f"\b\nExample: {found[0]}\n{found[1]}"
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            add_example(below, (*words, name))
