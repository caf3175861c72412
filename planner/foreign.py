"""Functions of other SQL dialects that DuckDB does not have, and how each is written in it."""

from __future__ import annotations

import re

_TEXT = {
    ("ifnull", "nvl", "zeroifnull", "isnull"): ("coalesce(n, 0)", "n IS NULL"),
    ("nvl2", "iff", "iif"): ("CASE WHEN n IS NULL THEN 'none' ELSE 'some' END", "if(n > 1, 'a', 'b')"),
    ("nullifzero",): ("nullif(n, 0)",),
    ("choose", "elt"): ("['a', 'b', 'c'][n]",),
    ("field", "find_in_set"): ("list_position(['a', 'b', 'c'], s)",),
    ("to_char", "date_format", "format_datetime", "format_timestamp", "datename"): ("strftime(d, '%Y-%m-%d')",),
    ("to_date", "str_to_date", "parse_date", "try_to_date", "todate"): ("strptime(s, '%d/%m/%Y')::DATE", "try_strptime(s, '%d/%m/%Y')"),
    ("parse_datetime", "parse_timestamp", "to_datetime"): ("strptime(s, '%d/%m/%Y')", "try_strptime(s, '%d/%m/%Y')"),
    ("to_number", "try_to_number", "to_numeric", "tofloat"): ("TRY_CAST(replace(s, ',', '') AS DOUBLE)",),
    ("safe_cast", "cast_to"): ("TRY_CAST(s AS INTEGER)",),
    ("convert", "str", "tostring", "stringify"): ("CAST(n AS VARCHAR)", "n::VARCHAR"),
    ("int", "toint"): ("CAST(s AS INTEGER)", "TRY_CAST(s AS INTEGER)"),
    ("date", "datetime", "timestamp"): ("CAST(d AS DATE)", "CAST(d AS TIMESTAMP)"),
    ("isnumeric", "is_numeric", "isdate", "is_date"): ("TRY_CAST(s AS DOUBLE) IS NOT NULL", "TRY_CAST(s AS DATE) IS NOT NULL"),
    ("getdate", "sysdate", "curdate", "curtime", "utcnow"): ("current_date", "now()"),
    ("dateadd", "date_plus", "timestampadd"): ("d + INTERVAL 3 DAY",),
    ("add_months",): ("d + INTERVAL 2 MONTH",),
    ("months_between",): ("datediff('month', d, DATE '2024-12-31')",),
    ("timestampdiff", "days_between", "dayssince"): ("datediff('day', d, DATE '2024-12-31')",),
    ("eomonth",): ("last_day(d)",),
    ("date_from_parts", "datefromparts", "makedate"): ("make_date(2024, 5, 17)",),
    ("unix_timestamp", "extract_epoch"): ("epoch(d)",),
    ("from_unixtime", "from_epoch"): ("to_timestamp(n)",),
    ("julianday",): ("julian(d)", "datediff('day', d, DATE '2024-12-31')"),
    ("isoweek", "week_iso"): ("week(d)",),
    ("regexp_count", "regex_count", "count_matches"): ("len(regexp_extract_all(s, '[0-9]+'))",),
    ("regexp_substr", "regex_extract", "regexp_match"): ("regexp_extract(s, '[0-9]+')", "regexp_extract(s, 'no ([0-9]+)', 1)"),
    ("regexp_like", "rlike", "regexp_contains", "regexp", "regex_match", "like_regex", "regexp_ilike"): ("regexp_matches(s, '[0-9]+')", "regexp_matches(s, 'abc', 'i')"),
    ("regexp_instr", "locate", "charindex", "patindex", "indexof", "index_of"): ("strpos(s, 'needle')",),
    ("count_substring", "substr_count", "occurrences"): ("len(string_split(s, 'needle')) - 1",),
    ("lengthb", "bytes"): ("octet_length(encode(s))",),
    ("mid", "substring_index", "splitstr", "strtok"): ("substr(s, 2, 5)", "split_part(s, '-', 1)"),
    ("stringsplit", "strsplit", "tokenize", "tokenise", "regexp_split"): ("string_split(s, ' ')", "string_split_regex(s, '[^a-z]+')"),
    ("word_count", "wordcount"): ("len(regexp_extract_all(s, '[A-Za-z]+'))",),
    ("initcap", "proper", "title", "capitalize"): ("upper(s[1]) || lower(s[2:])",),
    ("strip", "trim_left", "btrim"): ("trim(s)", "ltrim(s)", "rtrim(s)"),
    ("stuff",): ("s[:2] || 'new' || s[5:]",),
    ("space", "replicate"): ("repeat(' ', n)",),
    ("char",): ("chr(10)",),
    ("lower_case", "to_lower"): ("lower(s)",),
    ("upper_case", "to_upper"): ("upper(s)",),
    ("startswith",): ("starts_with(s, 'abc')",),
    ("endswith",): ("ends_with(s, 'xyz')",),
    ("edit_distance", "levenshtein_distance", "trigram", "word_similarity", "soundex", "fuzzy_match"): ("levenshtein(s, 'other')", "jaro_winkler_similarity(s, 'other')"),
    ("collect_list", "collect_set", "group_array", "json_agg", "jsonb_agg"): ("list(n ORDER BY n)", "list(DISTINCT n)"),
    ("sumif", "sum_if", "avg_if"): ("sum(n) FILTER (WHERE n > 1)",),
    ("every", "logical_and"): ("bool_and(n > 1)",),
    ("logical_or",): ("bool_or(n > 1)",),
    ("percentile", "approx_percentile", "percentile_approx"): ("quantile_cont(n, 0.9)",),
    ("std",): ("stddev_samp(n)",),
    ("var",): ("var_samp(n)",),
    ("total",): ("coalesce(sum(n), 0)",),
    ("safe_divide", "div0", "div"): ("n / nullif(n, 0)", "n // 2"),
    ("square",): ("n * n",),
    ("bround", "truncate"): ("round(n, 2)", "trunc(n)"),
    ("format_number",): ("format('{:,.2f}', n::DOUBLE)",),
    ("rand", "randint", "random_int", "uniform"): ("random()",),
    ("newid",): ("uuid()",),
    ("explode", "posexplode", "lateral_flatten", "json_array_elements", "jsonb_array_elements"): ("unnest(l)", "unnest(CAST(j -> '$.a' AS JSON[]))"),
    ("sequence", "generate_array", "number_series"): ("range(1, 11)", "FROM range(1, 11)"),
    ("size", "array_size", "list_length"): ("len(l)",),
    ("array_join", "list_join", "implode"): ("array_to_string(l, ', ')",),
    ("sort_array",): ("list_sort(l)",),
    ("get_json_object", "json_query", "json_get", "json_extract_scalar"): ("j ->> '$.a'",),
    ("json_object_keys", "object_keys", "jsonb_object_keys"): ("json_keys(j)",),
    ("json_build_object", "jsonb_build_object"): ("json_object('a', n)",),
}  # fmt: skip
EXAMPLES = {name: ways for names, ways in _TEXT.items() for name in names}
"""By the function's name in lower case. Each way is an expression, or begins with FROM; in them s is a text, n a number, d a date, l a list and j JSON."""

_SIGNATURES = {
    ("datediff", "date_diff"): ("datediff('day', d, DATE '2024-12-31')",),
    ("date_add", "date_sub"): ("d + INTERVAL 3 DAY",),
    ("to_timestamp",): ("strptime(s, '%d/%m/%Y')", "to_timestamp(n)"),
    ("date_trunc",): ("date_trunc('month', d)",),
    ("strftime",): ("strftime(d, '%Y-%m')",),
    ("strptime",): ("strptime(s, '%d/%m/%Y')",),
    ("round",): ("round(TRY_CAST(s AS DOUBLE), 2)",),
    ("sum", "avg"): ("sum(TRY_CAST(s AS DOUBLE))",),
    ("instr", "strpos", "position"): ("strpos(s, 'needle')",),
    ("len", "length"): ("len(s)", "len(l)", "len(n::VARCHAR)"),
    ("string_agg", "group_concat", "listagg"): ("string_agg(s, ', ' ORDER BY s)",),
    ("decode",): ("CASE WHEN n = 1 THEN 'one' ELSE 'other' END",),
}
OTHER_ARGUMENTS = {name: ways for names, ways in _SIGNATURES.items() for name in names}
"""Of functions that DuckDB has, with other arguments than elsewhere."""


NO_MACRO = "Use CREATE FUNCTION name(arg TYPE) RETURNS TYPE AS SQL (SELECT ...)."
_FORMS = (
    (r"create\s+(or\s+replace\s+)?(temp\w*\s+)?macro\b", NO_MACRO),
    (r"create\s+(or\s+replace\s+)?type\b", "Write the type where it is used: CREATE TABLE t (mood ENUM ('good', 'bad'), place STRUCT(x BIGINT, y BIGINT))"),
    (r"show\s+(?!tables\b)", "SHOW TABLES lists the tables, DESCRIBE t shows the columns of one"),
    (r"(load|install)\b", "Everything that can be used is loaded"),
    (r"(vacuum|checkpoint|grant|revoke|analyze)\b", "Leave it out"),
    (r"(declare|if|while|print|execute\s+immediate|do|begin)\b", "There are no variables and no branches: use CTEs and CREATE TABLE t AS SELECT ..."),
    (r"(replace|upsert)\s+into\b", "In DuckDB: INSERT OR REPLACE INTO t ..., or DELETE and INSERT"),
    (r"rename\b", "CREATE TABLE b AS FROM a, then DROP TABLE a"),
    (r".*\bselect\s+top\s+\d", "In DuckDB: SELECT ... LIMIT n"),
    (r".*\bseparator\s+'", "In DuckDB: string_agg(s, ', ' ORDER BY s)"),
    (r".*\bminus\s+select\b", "In DuckDB: SELECT ... EXCEPT SELECT ..."),
    (r".*\bsample\s+\d+\s*$", "In DuckDB: SELECT ... USING SAMPLE 10 ROWS"),
    (r".*`", 'Names are quoted as "name"'),
    (r".*@\w", "There are no variables: use a CTE, or CREATE TABLE t AS SELECT ..."),
)  # fmt: skip


def form_in_duckdb(statement: str) -> str | None:
    """What to write in place of a statement that could not be read, where it has a form that other dialects have.

    >>> form_in_duckdb("SELECT TOP 5 * FROM t")
    'In DuckDB: SELECT ... LIMIT n'
    """
    flags = re.IGNORECASE | re.DOTALL
    return next((hint for pattern, hint in _FORMS if re.match(pattern, statement, flags)), None)


def in_duckdb(name: str) -> str | None:
    """How to write in DuckDB what another dialect's function does, None for an unknown name.

    >>> in_duckdb("NULLIFZERO"), in_duckdb("lower")
    ('In DuckDB: nullif(n, 0)', None)
    """
    ways = EXAMPLES.get(name.lower())
    return None if ways is None else f"In DuckDB: {', or '.join(ways)}"


def with_other_arguments(name: str) -> str | None:
    """How DuckDB's function of this name is called, where other dialects give it other arguments."""
    ways = OTHER_ARGUMENTS.get(name.lower())
    return None if ways is None else f"In DuckDB: {', or '.join(ways)}"
