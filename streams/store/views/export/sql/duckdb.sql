-- Views over verdicts that `judgestream export --format parquet --output FOLDER` has written. The means are those of judgestream:
-- weighted by 1 / inclusion probability, with a 95% interval in Wilson's form. Never blend evaluators: each is a series of its own.

CREATE OR REPLACE VIEW verdicts AS SELECT * FROM read_parquet('{folder}/*/*.parquet', hive_partitioning = true);

-- The ends of each metric's scale; add your own metrics.
CREATE OR REPLACE TABLE scales (metric VARCHAR PRIMARY KEY, lowest DOUBLE, highest DOUBLE);
INSERT INTO scales VALUES ('coverage', 0, 5), ('relevance', 1, 5);

CREATE OR REPLACE VIEW scored AS SELECT * FROM verdicts WHERE status = 'scored' AND replay_id IS NULL;

-- Quantile 0.975 of Student's t (Abramowitz and Stegun 26.7.5).
CREATE OR REPLACE MACRO student(degrees) AS 1.959963984540054
  + 2.3722712302985607 / degrees + 2.822498615739608 / degrees ^ 2 + 2.5558496795077192 / degrees ^ 3 + 1.5895340533938198 / degrees ^ 4;

-- From the mean y in [0, 1], the effective sample size n and the sum of w^2 (x - mean)^2 / (scale * sum of w)^2.
CREATE OR REPLACE MACRO spread(y, n, seen) AS
  student(n - 1) ^ 2 * (
    (n / (n + 10)) / (greatest(y * (1 - y), least(0.75 / n, 0.25)) / ((seen + 0.75 / (n * n)) * n / (n - 1))) + 10 / (n + 10) / n
  );
CREATE OR REPLACE MACRO low_end(y, n, g) AS
  CASE WHEN n < 3 THEN 0 ELSE greatest(least((y + g / 2 - sqrt(greatest(y * (1 - y) * g + g * g / 4, 0))) / (1 + g), y), 0) END;
CREATE OR REPLACE MACRO high_end(y, n, g) AS
  CASE WHEN n < 3 THEN 1 ELSE least(greatest((y + g / 2 + sqrt(greatest(y * (1 - y) * g + g * g / 4, 0))) / (1 + g), y), 1) END;

CREATE OR REPLACE MACRO estimates(sums) AS TABLE
  WITH scaled AS (
    SELECT *, wx / w AS mean, w * w / ww AS effective_count,
      (wx / w - lowest) / (highest - lowest) AS y,
      greatest(wwxx - 2 * (wx / w) * wwx + (wx / w) ^ 2 * ww, 0) / ((highest - lowest) * w) ^ 2 AS seen
    FROM query_table(sums) JOIN scales USING (metric)
  ), spreads AS (
    SELECT *, CASE WHEN effective_count < 3 THEN 0 ELSE spread(y, effective_count, seen) END AS g FROM scaled
  )
  SELECT * EXCLUDE (w, wx, ww, wwx, wwxx, y, seen, g, lowest, highest),
    lowest + (highest - lowest) * low_end(y, effective_count, g) AS low,
    lowest + (highest - lowest) * high_end(y, effective_count, g) AS high
  FROM spreads;

CREATE OR REPLACE VIEW sums_by_day AS
  SELECT metric, fingerprint, day, count(*) AS judged, sum(1 / probability) AS w, sum(score / probability) AS wx,
    sum(1 / probability ^ 2) AS ww, sum(score / probability ^ 2) AS wwx, sum(score ^ 2 / probability ^ 2) AS wwxx
  FROM scored GROUP BY ALL;
CREATE OR REPLACE VIEW mean_by_day AS SELECT * FROM estimates('sums_by_day') ORDER BY metric, fingerprint, day;

CREATE OR REPLACE VIEW labelled AS
  SELECT * EXCLUDE (name), name AS label, json_extract_string(labels, '$."' || replace(name, '"', '') || '"') AS value
  FROM (SELECT *, unnest(json_keys(labels)) AS name FROM scored);
CREATE OR REPLACE VIEW sums_by_label AS
  SELECT metric, fingerprint, label, value, count(*) AS judged, sum(1 / probability) AS w, sum(score / probability) AS wx,
    sum(1 / probability ^ 2) AS ww, sum(score / probability ^ 2) AS wwx, sum(score ^ 2 / probability ^ 2) AS wwxx
  FROM labelled GROUP BY ALL;
CREATE OR REPLACE VIEW mean_by_label AS SELECT * FROM estimates('sums_by_label') ORDER BY metric, fingerprint, label, mean;

CREATE OR REPLACE VIEW sums_by_day_and_label AS
  SELECT metric, fingerprint, day, label, value, count(*) AS judged, sum(1 / probability) AS w, sum(score / probability) AS wx,
    sum(1 / probability ^ 2) AS ww, sum(score / probability ^ 2) AS wwx, sum(score ^ 2 / probability ^ 2) AS wwxx
  FROM labelled GROUP BY ALL;
CREATE OR REPLACE VIEW mean_by_day_and_label AS
  SELECT * FROM estimates('sums_by_day_and_label') ORDER BY metric, fingerprint, day, label, mean;

CREATE OR REPLACE VIEW cost_by_day AS
  SELECT day, metric, count(*) AS judged, sum(cost_usd) AS cost_usd, sum(input_tokens + output_tokens) AS tokens
  FROM verdicts GROUP BY ALL ORDER BY day, metric;
