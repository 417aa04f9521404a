-- Queries that are functions of the log, one for each way to say something.

SELECT a[0], m['k'], st.u, st.*, a[id] + 1 FROM t;

SELECT transform(a, v -> v + id), aggregate(a, 0, (s, v) -> s + v), array_sort(a, (l, r) -> r - l) FROM t;

SELECT sum(x) FILTER (WHERE id > 1), count(DISTINCT g, id), max_by(x, id), collect_list(x), array_agg(x) FROM t;

SELECT mode(x, true), mode() WITHIN GROUP (ORDER BY x), listagg(g, ',') WITHIN GROUP (ORDER BY id) FROM t;

SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x), median(x), regr_slope(x, y), approx_count_distinct(g) FROM t;

SELECT first_value(x) OVER w, last(x) OVER w, nth_value(x, 2) OVER w, any_value(x) OVER w FROM t WINDOW w AS (ORDER
    BY id);

SELECT max_by(x, id, 3) OVER (PARTITION BY g), listagg(g) OVER (PARTITION BY g), mode(x) OVER (PARTITION BY g) FROM
    t;

SELECT rank() OVER w, lag(x) OVER w, ntile(3) OVER w, row_number() OVER w FROM t WINDOW w AS (PARTITION BY g ORDER
    BY id);

SELECT sum(x) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), count(*) OVER (ORDER BY id RANGE 5
    PRECEDING) FROM t;

SELECT first_value(x) OVER (ORDER BY id) BETWEEN 1 AND 2, nullif(lag(x) OVER (ORDER BY id), 1) FROM t;

SELECT g FROM t WHERE id IN (SELECT id FROM t) AND EXISTS (SELECT 1 FROM t u WHERE u.g = t.g) OR (id, g) IN (SELECT
    id, g FROM t);

SELECT id, (SELECT max(x) FROM t u WHERE u.g = t.g), l.v FROM t, LATERAL (SELECT u.x AS v FROM t u WHERE u.id <
    t.id) l;

SELECT g, grouping(g), grouping_id(), count(*) FROM t GROUP BY CUBE (g, id) HAVING count(*) > 1;

SELECT * FROM (SELECT g, id, x FROM t) PIVOT (sum(x) AS s, max(x) AS m FOR g IN ('a', 'b'));

SELECT * FROM t UNPIVOT (v FOR k IN (x, y));

SELECT window(at, '1 hour').start, count(*) FROM t GROUP BY window(at, '1 hour');

SELECT session_window(at, '5 minutes'), count(*) FROM t GROUP BY 1;

SELECT v.* FROM t LATERAL VIEW OUTER posexplode(a) v;

SELECT id FROM t UNION SELECT id FROM t INTERSECT SELECT id FROM t EXCEPT ALL SELECT id FROM t;

SELECT parse_json(g):a.b[0]::int, try_variant_get(parse_json(g), '$.a', 'date') FROM t;

SELECT * FROM t, LATERAL variant_explode(parse_json(g));

SELECT g LIKE ANY ('a%', 'b%'), g NOT LIKE ALL ('a', 'b'), g ILIKE 'A%', g RLIKE 'a' FROM t;

SELECT at + INTERVAL 1 MONTH, at - at, day - day, day + 1, at + INTERVAL '1' DAY, day - INTERVAL '1' YEAR FROM t;

SELECT INTERVAL '1' DAY * 2, INTERVAL '1' YEAR / 2, make_interval(1) * 2, extract(WEEK FROM at), timestampadd(DAY,
    1, at) FROM t;

SELECT unix_timestamp(at), to_unix_timestamp(g), convert_timezone('UTC', 'Europe/Berlin', n), current_date FROM
    (SELECT *, day AS current_date FROM t);

SELECT CAST(g AS timestamp), to_date(g), at > '2020-01-01', at > date_add(date '2020-01-01', 3), timestamp 'epoch'
    FROM t;

SELECT aes_encrypt(g, '0123456789abcdef', 'ECB'), raise_error(g), assert_true(id > 1) FROM t;

SELECT * FROM VALUES (1, 'now'), (2, 'today') AS v(a, b);

SELECT * FROM range(5);

FROM t |> WHERE id > 1 |> EXTEND x + 1 AS z |> AGGREGATE sum(z) GROUP BY g;

WITH c AS (SELECT g, count(*) AS n FROM t GROUP BY g) SELECT c.n, d.n FROM c JOIN c d USING (g) ORDER BY 1 LIMIT 3;

SELECT shout(g) FROM t;
