"""Statements on which schemes like ours go wrong, or ask for more than they need: rows are the truth's, calls are counted.

``least`` is the number of calls the answer needs; ``above_least`` is what a statement costs today where a rule for its shape is missing.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from tests.semantics.small import SETUP
from tests.semantics.world import World


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World(SETUP) as made:
        yield made


@attrs.frozen
class Trap:
    name: str
    sql: str
    least: int | None = None
    above_least: int | None = None
    ordered: bool = False


TRAPS = (
    # A. what could give wrong rows
    Trap(
        "a hit of one call is not the hit of EXISTS",
        "select cid from c where exists (select 1 from x where x.cid = c.cid and f(x.cid || '|' || pos) and g(x.cid || '|' || pos))",
        least=44,
        above_least=45,
    ),
    Trap(
        "EXISTS with OFFSET",
        "select cid from c where exists (select 1 from x where x.cid = c.cid and f(x.cid || '|' || pos) offset 3)",
        least=100,
    ),
    Trap(
        "EXISTS with GROUP BY and HAVING",
        "select cid from c where exists (select 1 from x where x.cid = c.cid and f(x.cid || '|' || pos) group by x.cid having count(*) > 3)",
        least=100,
    ),
    Trap(
        "EXISTS and NOT EXISTS of one call",
        "select cid from c where exists (select 1 from x where x.cid = c.cid and f(x.cid || '|' || pos)) and not exists (select 1 from x where x.cid = c.cid and not f(x.cid || '|' || pos))",
        least=30,
        above_least=38,
    ),
    Trap(
        "EXISTS beside a count of the same call",
        "select exists (select 1 from x where f(pos)), (select count(*) from x where f(pos))",
        least=10,
    ),
    Trap(
        "the outer key is all correlated columns",
        "select * from c2 where exists (select 1 from x where x.cid = c2.cid and x.pos between c2.lo and c2.lo + 4 and f(x.cid || '|' || pos))",
        least=11,
    ),
    Trap(
        "LIMIT over a left join with a call in ON",
        "select count(*) from (select u.i from u left join t on t.i = u.i and f(t.i) limit 5)",
    ),
    Trap("LIMIT of a map", "select count(*) from (select f(i) from t limit 5)", least=0),
    Trap("map of a filter under LIMIT", "select count(h) from (select i, h(i) as h from t where f(i) limit 5)"),
    Trap("GROUP BY over a filter", "select g, count(*) from t where f(s) group by g", least=20),
    Trap("EXCEPT of a filter", "select i from t where i < 20 except select i from t where f(i) and i < 20", least=20),
    Trap(
        "COALESCE of a call is TRUE for unknown answers",
        "select i from t where i < 30 and coalesce(f(i), true)",
        least=30,
    ),
    Trap("IS NULL finds unknown answers", "select i from t where i < 50 and f(i) is null", least=50),
    Trap("window over a filter", "select i, row_number() over (order by i) from t where i < 60 and f(i)", least=60),
    Trap(
        "two limits, crossed",
        "select count(*) from (select i from t where f(i) limit 2) a, (select i from t where f(i) limit 3) b",
        least=3,
    ),
    Trap(
        "ORDER BY decides which rows LIMIT keeps",
        "select i from t where f(i) order by i desc limit 5",
        least=8,
        ordered=True,
    ),
    Trap(
        "a filter over a sorted source",
        "select i from (select * from t order by i desc) where f(i) order by i desc limit 5",
        least=8,
        ordered=True,
    ),
    Trap("LIMIT as a share", "select count(*) from (select i from t where i < 40 and f(i) limit 10%)", least=40),
    Trap(
        "a LIMIT inside an aggregate",
        "select count(*) from (select i from t where f(i) limit 5)",
        least=5,
    ),
    Trap(
        "DISTINCT under LIMIT",
        "select count(*) from (select distinct g from t where f(i) limit 3)",
        least=3,
    ),
    Trap(
        "an outer join's condition does not guard WHERE",
        "select a.i, b.z from one a left join u b on a.i = b.i where f(coalesce(b.z, 'none'))",
        least=3,
    ),
    Trap("WHERE over a left join", "select a.i, b.z from one a left join u b on a.i = b.i where f(a.i)", least=10),
    Trap("NOT over AND", "select i from n where not (p and f(i))", least=8),
    Trap("AND in the select list keeps NULL", "select i, p and f(i) from n", least=8),
    Trap("OR in the select list keeps NULL", "select i, p or f(i) from n", least=8),
    Trap("IS NULL over AND", "select i from n where (p and f(i)) is null", least=8),
    Trap(
        "a guard is not captured by an inner column",
        "select u.i, pos from u, x where pos < 3 and u.i < 10 and exists (select 1 from x x2 where x2.cid = x.cid and x2.pos > 8 and f(x2.pos || '|' || u.i))",
    ),
    Trap("NOT IN with an unknown answer", "select z from u where i < 60 and z not in (select h(pos) from x)", least=10),
    Trap("NOT IN of nothing", "select z from u where i < 60 and z not in (select h(v) from none)", least=0),
    Trap("IN with unknown answers", "select v from nul where v in (select h(pos) from x)", least=10),
    Trap(
        "NULL on the left of NOT IN", "select i from nul where v not in (select h(pos) from x where pos < 4)", least=3
    ),
    Trap(
        "greater than ALL",
        "select i from t where i < 12 and i > all (select length(h(pos)) from x where pos < 5)",
        least=4,
    ),
    Trap("NULL arguments make no call", "select i, f(v), h(v) from nul", least=4),
    Trap("two calls never starve each other", "select i from t where i < 10 and f(i) and g(i)", least=19),
    Trap(
        "two calls in a cycle of conditions",
        "select i from t where i < 10 and (f(i) and g(i) or g(i) and f(i))",
        least=19,
    ),
    Trap("DISTINCT of answers", "select distinct h(i) from t where i < 30", least=30),
    Trap("a call used twice is asked once", "select h(s), h(s) || '!' from t where h(s) = 'a'", least=20),
    # B. errors of runs that are not the last
    Trap(
        "a cast of an answer that is not there yet",
        "select coalesce(h(i), '1')::integer from t where i < 30 and (h(i) = '1' or h(i) is null)",
        least=30,
    ),
    Trap(
        "error() under a condition",
        "select case when f(i) then i else error('bad') end from t where i < 20 and f(i)",
        least=20,
    ),
    Trap(
        "a scalar subquery of one row",
        "select (select i from t t2 where t2.i < 30 and (h(t2.i) is null or h(t2.i) = 'nothing') order by i limit 1) from one",
        least=30,
    ),
    Trap(
        "recursion that ends by an answer",
        "with recursive r as (select 0 as i union all select i + 1 from r where coalesce(f('go' || i), true) and i < 8) select * from r",
    ),
    Trap(
        "recursion bounded by calls outside",
        "with recursive r as (select 0 as i union all select i + 1 from r where i < (select count(*) from t where i < 10 and f(i))) select * from r",
    ),
    # C0. placement
    Trap("semi join", "select * from wt semi join wu using (k) where f(body)", least=60),
    Trap("natural join", "select wt.i from wt natural join wu where f(body)", least=60),
    Trap("natural join of all columns", "select * from wt natural join wu where f(body)", least=60),
    Trap("join using, all columns", "select * from wt join wu using (k) where f(body)", least=60),
    Trap("join on, all columns", "select * from wt join wu on wt.k = wu.k where f(body)", least=60),
    Trap(
        "join with pure conditions in WHERE",
        "select wt.i from wt, wu where wt.k = wu.k and wu.j < 10 and f(body)",
        least=10,
    ),
    Trap(
        "lateral subquery",
        "select wt.i, y.j from wt, lateral (select j from wu where wu.k = wt.k) y where f(body)",
        least=60,
    ),
    Trap(
        "lateral unnest",
        "select wt.i, y.n from wt, lateral (select unnest([1, 2]) as n) y where wt.i < 10 and f(body)",
        least=10,
    ),
    Trap("anti join", "select * from wt anti join wu using (k) where f(body)", least=140),
    Trap("left join and IS NULL", "select wt.i from wt left join wu using (k) where j is null and f(body)", least=140),
    Trap(
        "full join and a pure condition",
        "select wt.i, j from wt full join wu using (k) where j < 10 and f(body)",
        least=10,
    ),
    Trap("an empty side", "select wt.i from wt, (select 1 from wu where j < 0) z where f(body)", least=0),
    Trap(
        "an EXISTS that is false", "select i from wt where exists (select 1 from wu where j < 0) and f(body)", least=0
    ),
    Trap(
        "an EXISTS that removes rows",
        "select i from wt where exists (select 1 from wu where wu.k = wt.k) and f(body)",
        least=60,
    ),
    Trap("an IN that removes rows", "select i from wt where k in (select k from wu) and f(body)", least=60),
    Trap(
        "EXCEPT below a call",
        "select * from (select body from wt where i < 20 except select body from wt where i % 10 <> 0) q where f(body)",
        least=2,
    ),
    Trap(
        "INTERSECT below a call",
        "select * from (select body from wt intersect select body from wt where i < 10) q where f(body)",
        least=10,
    ),
    Trap(
        "INTERSECT with a call in a branch",
        "select body from wt where f(body) intersect select body from wt where i < 10",
        least=10,
    ),
    Trap(
        "EXCEPT with a call in the left branch",
        "select body from wt where f(body) except select body from wt where i >= 10",
        least=10,
    ),
    Trap(
        "UNION with calls in both branches",
        "select body from wt where i < 10 and f(body) union select body from wt where i between 5 and 14 and f(body)",
        least=15,
    ),
    Trap(
        "join outside a subquery with a call",
        "select q.i from (select * from wt where f(body)) q join wu using (k)",
        least=60,
    ),
    Trap(
        "join outside a map, used as condition",
        "select q.i from (select i, f(i) as b from t) q join u on q.i = u.i where q.b",
        least=40,
    ),
    Trap(
        "a pure condition outside reaches a map",
        "select q.i from (select i, f(i) as b from t) q where q.b and q.i < 10",
        least=10,
    ),
    Trap(
        "a pure condition outside reaches a filter",
        "select q.i from (select i, s from t where f(i)) q where q.i < 10",
        least=10,
    ),
    Trap("IN over a filter", "select wu.j from wu where k in (select k from wt where f(body))", least=60),
    Trap(
        "NOT IN over a filter",
        "select wu.j from wu where k not in (select k from wt where f(body))",
        least=60,
    ),
    Trap("DISTINCT ON", "select distinct on (g) g, h(body) from wt order by g, i", least=7),
    Trap("arg_max of an answer", "select g, arg_max(h(body), i) from wt group by g", least=10, above_least=200),
    Trap("first of an answer", "select g, first(h(body) order by i) from wt group by g", least=7),
    Trap("a call of arg_max", "select g, h(arg_max(body, i)) from wt group by g", least=7),
    Trap("lag of an answer", "select i, lag(h(body)) over (order by i) from wt where i < 5", least=4),
    Trap(
        "FILTER under a pure HAVING",
        "select g, count(*) filter (where f(body)) from wt group by g having count(*) > 28",
        least=116,
        above_least=200,
    ),
    Trap(
        "FILTER with a pure condition",
        "select g, count(*) filter (where f(body) and i < 10) from wt group by g",
        least=10,
    ),
    Trap("a map under ORDER BY and LIMIT", "select h(body) from wt order by i limit 5", least=5, ordered=True),
    Trap(
        "a map over a sorted and limited source",
        "select h(body) from (select * from wt order by i limit 5) order by i",
        least=5,
        ordered=True,
    ),
    Trap(
        "a window's partition, limited outside",
        "select * from (select i, g, count(f(body)) over (partition by g) as n from wt) where g = 3",
        least=29,
    ),
    Trap(
        "QUALIFY over a pure window",
        "select i from wt qualify row_number() over (partition by g order by i) = 1 and f(body)",
        least=7,
    ),
    Trap("cheap and computed, written last", "select i from t where f(i) and i % 10 = 0", least=20),
    Trap(
        "cheap and computed, over a subquery",
        "select i from (select i, s from t) q where i % 10 = 0 and f(i)",
        least=20,
    ),
    Trap("a chain of three", "select i from t where i < 20 and f(i) and g(i) and q(i)", least=43),
    Trap("HAVING with a call", "select g, count(*) from t group by g having count(*) > 28 and f(g)", least=4),
    Trap("a join condition with a call", "select u.i, t.i from u join t on t.i = u.i and f(t.i)", least=40),
    Trap(
        "a join condition with a call over both sides",
        "select u.i, t.i from u join t on t.i = u.i and t.i < 20 and f(t.i || u.z)",
        least=4,
    ),
    Trap("left join with a call in ON", "select u.i, t.i from u left join t on t.i = u.i and f(t.i)", least=40),
    Trap("full join with a call in ON", "select u.i, t.i from u full join t on t.i = u.i and f(t.i)", least=40),
    Trap("anti join with a call in ON", "select u.i from u anti join t on t.i = u.i and f(t.i)", least=40),
    Trap("semi join with a call in ON", "select u.i from u semi join t on t.i = u.i and f(t.i)", least=40),
    Trap(
        "a CTE used twice",
        "with q as (select i, f(i) as b from t where i < 10) select a.i from q a join q b on a.i = b.i where a.b and b.b",
        least=10,
    ),
    Trap(
        "a CTE filtered outside", "with q as (select i, f(i) as b from t) select i from q where b and i < 10", least=10
    ),
    Trap("a CTE not used", "with q as (select f(i) as b from t) select i from one", least=0),
    Trap("VALUES", "select h(v) from (values ('a1'), ('a2'), ('a1')) r(v)", least=2),
    Trap(
        "three tables",
        "select count(*) from u, t, wt where u.i = t.i and t.i = wt.i and wt.g = 3 and f(u.z || t.s)",
        least=6,
    ),
    Trap(
        "the same call on both sides of a join",
        "select a.i from u a join u b on a.i = b.i where f(a.z) and f(b.z)",
        least=10,
    ),
    Trap(
        "a subquery as a source, twice",
        "select count(*) from (select i from t where f(i) and i < 10) a, (select i from t where f(i) and i < 5) b",
        least=10,
    ),
    # C1, C2. guards into subqueries, constants
    Trap(
        "OR around an EXISTS",
        "select cid from c where cid < 8 or exists (select 1 from x where x.cid = c.cid and f(x.cid || '|' || pos))",
        least=8,
    ),
    Trap(
        "CASE around a subquery",
        "select case when cid >= 8 then (select count(*) from x where x.cid = c.cid and f(x.cid || '|' || pos)) end from c",
        least=20,
    ),
    Trap("a constant in a branch never taken", "select case when i > 1000 then f('const') end from t", least=0),
    Trap("a constant under a condition never met", "select i from t where i < 0 and f('const')", least=0),
    Trap("a constant over an empty table", "select i from none where f('const')", least=0, above_least=1),
    Trap("a constant beside a filter", "select i from t where i < 10 and f('yes')", least=1),
    Trap(
        "a column that statistics call constant",
        "select case when i > 5000 + i then f(z) end from one",
        least=0,
        above_least=1,
    ),
    Trap(
        "a constant of a left join",
        "select a.i from one a left join none b on a.i = b.i where f(coalesce(b.v, 'none'))",
        least=1,
    ),
    Trap("an aggregate of constants is no constant", "select count(*) from none having f(max('a'))", least=0),
    # D. readiness
    Trap(
        "a call beside a left join with a call in ON",
        "select u.i from u left join t on t.i = u.i and f(t.i) where t.i is null and g(u.i)",
        least=59,
    ),
    Trap(
        "a condition that counts answers",
        "select i from t where i > 15 * (select count(*) from t where i < 10 and f(i)) and g(i)",
        least=74,
        above_least=209,
    ),
    Trap("a call over concat of a call", "select g(concat('b ', h(s))) from t", least=26),
    Trap("a call over COALESCE of a call", "select g(coalesce(h(s), 'none')) from t", least=26),
    Trap("a call over IS NULL of a call", "select g(cast(h(s) is null as varchar)) from t", least=22),
    Trap("a call over a list of answers", "select g(array_to_string([h(s), 'x'], '-')) from t", least=26),
    Trap("a call over greatest", "select g(greatest(h(s), 'b')) from t", least=23),
    Trap(
        "a call over DISTINCT FROM",
        "select i from t where i < 20 and g(cast(h(s) is distinct from 'a' as varchar))",
        least=22,
    ),
    Trap("three calls deep", "select h('c' || h('b' || h('a' || i))) from t where i < 10", least=18),
    Trap(
        "COALESCE of a CASE of calls",
        "select coalesce(case when f(i) then w(i) end, h(i)) from t where i < 20",
        least=40,
    ),
    Trap("CASE of calls", "select case when f(i) then h('x' || i) else h('y' || i) end from t where i < 20", least=40),
    Trap(
        "CASE with an operand",
        "select case h(i) when 'a' then w(i) when 'b' then w('b' || i) end from t where i < 20",
        least=30,
    ),
    Trap("OR of two calls", "select i from t where i < 20 and (f(i) or g(i))", least=25),
    Trap("AND in CASE", "select case when f(i) and g(i) then 1 else 2 end from t where i < 20", least=35),
    Trap("a cheap alternative", "select i from t where cheap or f(i)", least=180),
    Trap("a cheap alternative, written last", "select i from t where f(i) or cheap", least=180),
    Trap(
        "a call over an aggregate of calls", "select h(string_agg(w(i), ',' order by i)) from t where i < 10", least=11
    ),
    Trap(
        "a call over an aggregate of calls, by group",
        "select g, h(string_agg(w(i), ',' order by i)) from t where i < 21 group by g",
        least=27,
    ),
    Trap(
        "a call over an aggregate of a filter",
        "select h(string_agg(s, ',' order by i)) from t where i < 10 and f(i)",
        least=11,
    ),
    Trap(
        "a call over an aggregate of an OR",
        "select h(string_agg(s, ',' order by i)) from t where i < 10 and (f(i) or g(i))",
        least=12,
    ),
    Trap("a call over a window of calls", "select h(max(w(i)) over (order by i)) from t where i < 10", least=12),
    Trap("a call over a scalar subquery of calls", "select h((select max(w(pos)) from x)) from one", least=11),
    Trap(
        "a call over a count of calls",
        "select g(count(*) filter (where f(i))) from t where i < 10",
        least=11,
    ),
    Trap(
        "a call in HAVING over an aggregate of calls",
        "select g from t where i < 21 group by g having g(max(h(i)))",
        least=24,
    ),
    Trap(
        "a call over EXCEPT of a call",
        "select h(i) from (select i from t where i < 10 except select i from t where i < 10 and f(i))",
        least=11,
    ),
    Trap(
        "a call over NOT EXISTS of a call",
        "select h(claim) from c where not exists (select 1 from x where x.cid = c.cid and pos < 3 and f(x.cid || '|' || pos))",
        least=17,
    ),
    Trap(
        "a call over a LIMIT of a filter",
        "select h(i) from (select i from t where i < 20 and f(i) order by i limit 3)",
        least=6,
    ),
    # E, G. types, names, shapes that were sound
    Trap("grouping by an answer", "select h(s), count(*) from t group by h(s)", least=20),
    Trap(
        "grouping by an answer, guarded elsewhere",
        "select case when h(s) = 'a' then h(s) || '!' end, count(*) from t group by h(s)",
        least=20,
    ),
    Trap(
        "grouping by a COALESCE of an answer",
        "select coalesce(h(s), '?') as k, coalesce(h(s), '?') || '!' from t group by k",
        least=20,
    ),
    Trap(
        "grouping by position",
        "select coalesce(h(s), '?'), count(*) from t group by 1 having coalesce(h(s), '?') <> 'a'",
        least=20,
    ),
    Trap("GROUP BY ALL", "select coalesce(h(s), '?'), count(*) from t group by all", least=20),
    Trap("GROUPING SETS", "select h(s), g, count(*) from t group by grouping sets ((h(s)), (g), ())", least=20),
    Trap(
        "ROLLUP over an answer",
        "select coalesce(h(s), '?'), count(*) from t group by rollup (coalesce(h(s), '?'))",
        least=20,
    ),
    Trap(
        "GROUPING SETS that name an answer twice",
        "select h(s), g, count(*) from t group by grouping sets ((h(s)), (g), (h(s), g), ())",
        least=20,
    ),
    Trap("ORDER BY in a DISTINCT aggregate", "select list(distinct h(s) order by h(s)) from t", least=20),
    Trap("a PIVOT of calls in FROM", "select * from t pivot (max(h(s)) for g in (0, 1) group by cheap)", least=20),
    Trap("a function's name in quotes", 'select "F"(s) from t where "f"(s) and i < 10', least=10),
    Trap("a call as a method", "select t.s.h().w() from t where i < 5 and s.f()", least=9),
    Trap("FETCH FIRST", "select count(*) from (select i from t where f(i) fetch first 5 rows only)", least=5),
    Trap(
        "an alias in a condition and an order",
        "select i + 1 as j, f(j) as b from t where b order by j * -1 limit 2",
        least=4,
    ),
    Trap("aliases of aliases", "select h(s) as a, a || '!' as b, w(b) as c from t where i < 20", least=25),
    Trap(
        "a column before an alias of its name",
        "select i, h(s) as s from t where i < 20 order by s || 'x', i",
        least=20,
        ordered=True,
    ),
    Trap("an alias of an answer in HAVING", "select h(s) as a, count(*) from t group by a having f(a)", least=25),
    Trap(
        "LIMIT over a map",
        "select count(*) from (select i from (select i, f(i) as ok from t) q where ok limit 2)",
        least=2,
    ),
    Trap(
        "LIMIT over a map in a CTE",
        "with q as (select i, h(s) as x, f(i) as ok from t) select i from q where ok order by i limit 2",
        least=2,
        ordered=True,
    ),
    Trap(
        "an outer table's name inside EXISTS",
        "select i from t where exists (select 1 from (select i from t) v where v.i = t.i and f(v.i)) and i < 9",
        least=9,
    ),
    Trap(
        "an outer column that a subquery inside EXISTS has too",
        "select i from t where exists (select 1 from (select i as j from t where i < 20) v where v.j = i and f(v.j)) and i < 9",
        least=9,
    ),
    Trap(
        "a window by two answers",
        "select i, rank() over (partition by h(s) || w(s) order by i) from t where i < 9",
        least=18,
    ),
    Trap("a method of a value in parentheses", "select (t.s || 'x').h() from t where i < 9", least=9),
    Trap("an alias of a constant call", "select h('x') as a, a || '!' as b", least=1),
    Trap("COLUMNS in a condition", "select i from nul where f(columns(*)) and i < 4", least=5),
    Trap(
        "a call over each row that QUALIFY keeps",
        "select g, h(body) from wt qualify row_number() over (partition by g order by i) = 1 order by g limit 3",
        least=3,
        ordered=True,
    ),
    Trap("LIMIT over HAVING", "select g from t group by g having f(g) order by g limit 1", least=1, ordered=True),
    Trap(
        "aggregates of calls for the groups that pass",
        "select g, max(h(body)) from wt group by g having f(g) and max(h(body)) < 'c'",
        least=179,
    ),
    Trap(
        "the side that an outer join keeps",
        "select a.i, b.i from u a left join wt b on a.i = b.i and f(a.z || b.g) where g(a.z)",
        least=34,
    ),
    Trap("an argument cast by its type", "select f(i), f(i::double::integer), f(cheap) from t where i < 3"),
    Trap("arguments with NUL and combining marks", "select h('a' || chr(0) || 'é' || i) from one", least=10),
    Trap(
        "PIVOT on an answer",
        "select * from (pivot (select g, h(s) as k from t where i < 21) on k in ('a', 'b') using count(*))",
    ),
    Trap(
        "UNPIVOT of answers",
        "unpivot (select i, h(i) as a, w(i) as b from t where i < 5) on a, b into name n value v",
        least=10,
    ),
    Trap(
        "COLUMNS over a source with calls", "select columns('i') from (select i, h(i) as j from t where i < 5)", least=0
    ),
    Trap(
        "EXCLUDE over a source with calls",
        "select * exclude (j) from (select i, h(i) as j from t where i < 5)",
        least=0,
    ),
    Trap("IF", "select if(f(i), w(i), 'no') from t where i < 20", least=35),
    Trap("TRY of a cast", "select try(cast(h(i) as integer)) from t where i < 20", least=20),
    Trap("list comprehension", "select [h(z) for z in [s, 'x']] from t where i < 5", least=6),
    Trap("lambda", "select list_transform([s, 'x'], lambda z: h(z)) from t where i < 5", least=6),
    Trap(
        "lambda with a guard",
        "select list_transform([1, 2, 3], lambda z: case when z > 1 then h(z) end) from t where i < 5",
        least=2,
    ),
    Trap("ASOF join", "select t.i, u.i from t asof join u on t.i >= u.i where t.i < 10 and f(t.i)", least=10),
    Trap("positional join", "select a.i from one a positional join u b where a.i < 5 and f(a.i)", least=5),
    Trap(
        "inequality join",
        "select a.i, b.i from one a join one b on a.i < b.i and a.i < 3 where f(a.i || '|' || b.i)",
        least=24,
    ),
    Trap(
        "UNION ALL of two limits",
        "select count(*) from ((select i from t where f(i) limit 2) union all (select i from t where f(i) limit 2))",
        least=2,
    ),
    Trap(
        "an answer on the left of IN",
        "select i from t where i < 10 and h(s) in (select v from nul where v is not null)",
        least=10,
    ),
    Trap(
        "an answer on the left of NOT IN of nothing",
        "select i from t where i < 10 and h(s) not in (select v from none)",
        least=0,
    ),
    Trap("a call in ORDER BY", "select i from t where i < 10 order by s(i) desc nulls last, i", least=10, ordered=True),
    Trap("a call in a window's ORDER BY", "select i, rank() over (order by h(i)) from t where i < 10", least=10),
    Trap("a call in PARTITION BY", "select i, count(*) over (partition by h(s)) from t where i < 10", least=10),
    Trap(
        "an aggregate in a subquery, by group",
        "select g, (select count(*) from x where x.pos = t.g + 1 and f(x.pos)) from t group by g",
        least=7,
    ),
    Trap(
        "a call over an outer column in a subquery",
        "select cid, (select count(*) from x where x.cid = c.cid and pos < 3 and f(claim)) from c",
        least=10,
    ),
    Trap(
        "EXISTS two deep",
        "select cid from c where exists (select 1 from x where x.cid = c.cid and pos < 3 and exists (select 1 from nul where v is not null and f(claim || v || pos)))",
    ),
    Trap("FROM first", "from t select h(s) where i < 5", least=5),
    Trap("a qualified star of a join", "select wt.*, wu.j from wt join wu on wt.k = wu.k where f(body)", least=60),
    Trap(
        "names in quotes",
        'select q."I" from (select i as "I", s as "my s" from t) q where q."I" < 5 and f(q."my s")',
        least=5,
    ),
    Trap("an alias used in WHERE", "select i % 10 = 0 as p from t where p and f(i)", least=20),
)


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
def test_rows_are_the_truth_and_calls_are_counted(world: World, trap: Trap) -> None:
    world.check(trap.sql, least=trap.least, above_least=trap.above_least, ordered=trap.ordered)


@pytest.mark.parametrize(
    "sql",
    [
        "select * replace (h(body) as body) from wt where i < 5 order by i",
        "select wt.* replace (coalesce(h(body), '?') as body) from wt where i < 5 order by i",
        "select distinct on (h(body)) i from wt where i < 20 order by h(body), i",
        "select distinct on (coalesce(h(body), '?'), g) i from wt where i < 20 order by coalesce(h(body), '?'), g, i",
        "select (h(body), f(body)) as pair from wt where i < 5 order by i",
    ],
)
def test_no_expression_stands_around_a_list_of_items(world: World, sql: str) -> None:
    world.check(sql)
