-- Results from Kafka into ClickHouse, each once. A redelivered result has the same result_id: ReplacingMergeTree keeps the row with the
-- highest `first`, and that is the record with the lowest offset, so the first one stays. Read with FINAL, or through `verdicts`.

CREATE DATABASE IF NOT EXISTS judgestream;

CREATE TABLE IF NOT EXISTS judgestream.results
(
    result_id String,
    event_id String,
    replay_id Nullable(String),
    metric LowCardinality(String),
    status LowCardinality(String),
    score Nullable(Float64),
    fingerprint LowCardinality(String),
    model LowCardinality(String),
    labels Map(LowCardinality(String), String),
    probability Float64,
    stratum LowCardinality(String),
    occurred_at DateTime64(3, 'UTC'),
    judged_at DateTime64(3, 'UTC'),
    input_tokens UInt32,
    output_tokens UInt32,
    cost_usd Nullable(Float64),
    corrections Array(LowCardinality(String)),
    suspicions Array(LowCardinality(String)),
    raw String CODEC(ZSTD(3)),
    first UInt64
)
ENGINE = ReplacingMergeTree(first)
PARTITION BY toYYYYMM(occurred_at)
ORDER BY (metric, toDate(occurred_at), result_id);

CREATE TABLE IF NOT EXISTS judgestream.results_queue (raw String)
ENGINE = Kafka
SETTINGS kafka_broker_list = '{brokers}', kafka_topic_list = '{topic}', kafka_group_name = 'clickhouse-judgestream',
    kafka_format = 'RawBLOB', kafka_num_consumers = 1;

CREATE MATERIALIZED VIEW IF NOT EXISTS judgestream.results_in TO judgestream.results AS
SELECT
    JSONExtractString(raw, 'result_id') AS result_id,
    JSONExtractString(raw, 'event_id') AS event_id,
    JSONExtract(raw, 'replay_id', 'Nullable(String)') AS replay_id,
    JSONExtractString(raw, 'metric') AS metric,
    JSONExtractString(raw, 'status') AS status,
    if(JSONExtractString(raw, 'kind') = 'number', JSONExtract(raw, 'value', 'Nullable(Float64)'),
        JSONExtract(raw, 'score', 'Nullable(Float64)')) AS score,
    JSONExtractString(raw, 'evaluator', 'fingerprint') AS fingerprint,
    JSONExtractString(raw, 'evaluator', 'model') AS model,
    JSONExtract(raw, 'labels', 'Map(String, String)') AS labels,
    JSONExtractFloat(raw, 'sampling', 'probability') AS probability,
    JSONExtractString(raw, 'sampling', 'stratum') AS stratum,
    parseDateTime64BestEffort(JSONExtractString(raw, 'times', 'occurred_at'), 3, 'UTC') AS occurred_at,
    parseDateTime64BestEffort(JSONExtractString(raw, 'times', 'judged_at'), 3, 'UTC') AS judged_at,
    JSONExtractUInt(raw, 'usage', 'input_tokens') AS input_tokens,
    JSONExtractUInt(raw, 'usage', 'output_tokens') AS output_tokens,
    JSONExtract(raw, 'cost_usd', 'Nullable(Float64)') AS cost_usd,
    JSONExtract(raw, 'corrections', 'Array(Tuple(kind String))').kind AS corrections,
    JSONExtract(raw, 'suspicions', 'Array(Tuple(kind String))').kind AS suspicions,
    raw,
    18446744073709551615 - _offset AS first
FROM judgestream.results_queue;

CREATE VIEW IF NOT EXISTS judgestream.verdicts AS SELECT * FROM judgestream.results FINAL;

-- Weighted means by day; never blend evaluators.
CREATE VIEW IF NOT EXISTS judgestream.mean_by_day AS
SELECT
    metric, fingerprint, toDate(occurred_at) AS day, count() AS judged,
    sum(score / probability) / sum(1 / probability) AS mean,
    pow(sum(1 / probability), 2) / sum(1 / pow(probability, 2)) AS effective_count
FROM judgestream.verdicts
WHERE status = 'scored' AND replay_id IS NULL
GROUP BY metric, fingerprint, day;
