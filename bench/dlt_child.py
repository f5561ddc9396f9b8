"""How does dlt's `rest_api` copy one of the fakes? Runs in an environment of its own, with dlt and duckdb in it."""

import json
import sys
from pathlib import Path
from typing import Any

TOKEN = "fake-token"  # noqa: S105  not a real secret
SOURCES: dict[str, dict[str, Any]] = {
    "github-issues": {
        "client": {
            "auth": {"type": "bearer", "token": TOKEN},
            "paginator": {"type": "page_number", "base_page": 1, "page_param": "page", "total_path": None},
        },
        "endpoint": {
            "path": "issues",
            "params": {"state": "all", "sort": "updated", "direction": "desc", "per_page": 20},
        },
        "key": "number",
    },
    "django-rest": {
        "client": {
            "headers": {"Authorization": TOKEN},
            "paginator": {"type": "offset", "limit": 20, "total_path": "count"},
        },
        "endpoint": {"path": "things/", "params": {"ordering": "-updated_at"}, "data_selector": "results"},
        "key": "id",
    },
    "shopify-orders": {
        "client": {
            "headers": {"X-Shopify-Access-Token": TOKEN},
            "paginator": {"type": "header_link"},
        },
        "endpoint": {
            "path": "orders.json",
            "params": {"status": "any", "order": "updated_at desc", "limit": 20},
            "data_selector": "orders",
        },
        "key": "id",
    },
}


def copy() -> None:
    name, url, folder, result = sys.argv[1:]
    import dlt  # noqa: PLC0415
    from dlt.sources.rest_api import rest_api_source  # noqa: PLC0415

    told = SOURCES[name]
    source = rest_api_source(
        {
            "client": {"base_url": f"{url}/", **told["client"]},
            "resource_defaults": {"primary_key": told["key"], "write_disposition": "merge"},
            "resources": [{"name": "things", "endpoint": told["endpoint"]}],
        }
    )
    pipeline = dlt.pipeline(
        "mirror",
        pipelines_dir=str(Path(folder) / "state"),
        destination=dlt.destinations.duckdb(str(Path(folder) / "things.duckdb")),
        dataset_name="mirror",
    )
    pipeline.run(source)
    with pipeline.sql_client() as client:
        rows = client.execute_sql(f"SELECT {told['key']} FROM things") or []  # noqa: S608
    Path(result).write_text(json.dumps([str(row[0]) for row in rows]))


if __name__ == "__main__":
    copy()
