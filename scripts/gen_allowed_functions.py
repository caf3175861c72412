"""Write planner/allowed_functions.txt from DuckDB's own list: ``python scripts/gen_allowed_functions.py [--check]``.

Run it after a new DuckDB: every function that is new there is then either allowed by the rules below or denied by name, to be reviewed
as a diff. A function is denied when it reads files, settings, the environment or another schema, waits, changes something, builds or
runs a query, or is DuckDB's own machinery; table functions are allowed by name only.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import duckdb

TARGET = Path(__file__).resolve().parent.parent / "planner" / "allowed_functions.txt"
TABLES = frozenset({"range", "generate_series", "unnest", "repeat", "json_each", "json_tree"})
DENIED_PATTERNS = (
    r"__.*|_.*",
    r"pg_.*|has_.*_privilege|inet_.*|.*_description|.*_pg_(oid|type)|format_type|map_type_id_to_pg_oid",
    r"duckdb_.*|pragma_.*|parse_duckdb_.*|sql_.*|test_.*",
    r"read_.*|sniff_.*|parquet_.*|glob|arrow_.*|pandas_.*|python_.*|seq_scan|summary",
    r"query|query_table|histogram_values|json_(execute_serialized_sql|serialize_sql|serialize_plan|deserialize_sql)",
    r"(next|curr|set)val|setseed|.*sleep.*|write_log|.*_logging|.*checkpoint.*|.*_profil.*|json_copy_.*",
    r"current_(setting|query|query_id|connection_id|transaction_id|user|role|catalog|database|schema|schemas)|session_user|user",
    r"getvariable|getenv|version|in_search_path|txid_current|get_block_size|which_secret|stats|vector_type|get_type|make_type",
    r"(icu_)?collate_.*|icu_.*|.*_external_.*|.*_grammar_.*",
    r"can_cast_implicitly|cast_to_type|constant_or_null|combine|combine_aggr|finalize|to_aggregate_state|invoke|index_key|replace_type"
    r"|remap_struct|hive_partition_component|is_histogram_other_bin|variant_(bytes_to|to_parquet)_variant|variant_normalize|switch",
)


def denied(name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in DENIED_PATTERNS)


def lines(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """One line a function and kind: ``scalar abs``, ``aggregate sum``, ``window lag``, ``table range``, ``denied read_csv``."""
    rows = connection.execute("SELECT DISTINCT lower(function_name), function_type FROM duckdb_functions()").fetchall()
    found: set[str] = set()
    for name, kind in rows:
        if not re.fullmatch(r"\w+", name):
            continue  # an operator
        callable_kind = {"macro": "scalar", "table_macro": "table"}.get(kind, kind)
        fine = callable_kind in ("scalar", "aggregate", "window") and not denied(name)
        if fine or (callable_kind == "table" and name in TABLES):
            found.add(f"{callable_kind} {name}")
    allowed = {line.split()[1] for line in found}
    found |= {f"denied {name}" for name, _ in rows if re.fullmatch(r"\w+", name) and name not in allowed}
    return sorted(found)


def main(argv: list[str]) -> int:
    text = (
        "\n".join([f"# DuckDB {duckdb.__version__}, by scripts/gen_allowed_functions.py", *lines(duckdb.connect())])
        + "\n"
    )
    if "--check" in argv:
        return 0 if TARGET.read_text() == text else 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
