"""Small tables on which the traps and the rule fixtures run."""

from __future__ import annotations

SETUP = (
    "CREATE TABLE t AS SELECT i, i % 7 AS g, i % 10 = 0 AS cheap, 'v' || (i % 20) AS s FROM range(200) r(i)",
    "CREATE TABLE u AS SELECT i, 'u' || (i % 50) AS z FROM range(0, 200, 5) r(i)",
    "CREATE TABLE c AS SELECT i AS cid, 'claim ' || i AS claim FROM range(10) r(i)",
    "CREATE TABLE x AS SELECT i // 10 AS cid, i % 10 + 1 AS pos FROM range(100) r(i)",
    "CREATE TABLE c2 AS SELECT * FROM (VALUES (1, 1), (1, 6), (2, 1), (2, 6)) r(cid, lo)",
    "CREATE TABLE wt AS SELECT 'k' || i AS k, i, 'body ' || i AS body, i % 7 AS g FROM range(200) r(i)",
    "CREATE TABLE wu AS SELECT 'k' || (3 * i) AS k, i AS j FROM range(60) r(i)",
    "CREATE TABLE one AS SELECT i, 'same' AS z FROM range(10) r(i)",
    "CREATE TABLE n AS SELECT i, CASE i % 3 WHEN 0 THEN true WHEN 1 THEN false END AS p FROM range(12) r(i)",
    "CREATE TABLE nul AS SELECT * FROM (VALUES (1, 'x'), (2, NULL), (3, 'y'), (4, NULL), (5, 'x')) r(i, v)",
    "CREATE TABLE none (i INTEGER, v VARCHAR)",
)
