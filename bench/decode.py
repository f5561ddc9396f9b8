"""How long does it take to read an item's body? As a ratio to `json.loads` in the same run: machines differ, it does not."""

import json
import time
from collections.abc import Callable

from remora.sources.hackernews_item import decode_item

ROUNDS = 7
REPEATS = 40


def bodies() -> list[tuple[int, bytes]]:
    """Items in the usual shapes, with the usual mean size (about 450 bytes)."""
    made: list[dict[str, object]] = []
    for number in range(1, 501):
        common: dict[str, object] = {
            "by": f"user{number % 97}",
            "id": 40_000_000 + number,
            "time": 1_714_000_000 + number,
        }
        if number % 6:
            text = "It is worth measuring twice. " * (number % 23 + 2)
            made.append(
                {**common, "kids": list(range(number % 4)), "parent": 40_000_000, "text": text, "type": "comment"}
            )
            made[-1]["kids"] = [41_000_000 + kid for kid in range(number % 4)]
        else:
            story = {"descendants": number, "kids": [41_000_000 + kid for kid in range(20)], "score": number}
            address = f"https://example.org/essays/{number}"
            made.append({**common, **story, "title": f"On measuring, part {number}", "type": "story", "url": address})
    return [(int(str(item["id"])), json.dumps(item, separators=(",", ":")).encode()) for item in made]


def measure() -> dict[str, float]:
    """Microseconds per item, the best of several rounds, and the ratio of the two."""
    items = bodies()
    ours_us = _best_us(lambda: [decode_item(item_id, body) for item_id, body in items], len(items))
    plain_us = _best_us(lambda: [json.loads(body) for _item_id, body in items], len(items))
    mean_bytes = sum(len(body) for _item_id, body in items) / len(items)
    return {"decode_us": ours_us, "json_loads_us": plain_us, "ratio": ours_us / plain_us, "mean_bytes": mean_bytes}


def _best_us(run: Callable[[], object], count: int) -> float:
    best_ns = 0
    for _ in range(ROUNDS):
        started_ns = time.perf_counter_ns()
        for _ in range(REPEATS):
            run()
        took_ns = time.perf_counter_ns() - started_ns
        best_ns = min(best_ns, took_ns) if best_ns else took_ns
    return best_ns / REPEATS / count / 1_000


def main() -> None:
    """Print one line."""
    result = measure()
    print(
        f"decode: {result['decode_us']:.2f} µs per item of {result['mean_bytes']:.0f} bytes, "
        f"json.loads {result['json_loads_us']:.2f} µs, ratio {result['ratio']:.2f}"
    )


if __name__ == "__main__":
    main()
