-- What results have in common: few rows. Labels are JSON, without values of labels that have too many.
CREATE TABLE series (
  id INTEGER PRIMARY KEY, metric TEXT NOT NULL, fingerprint TEXT NOT NULL, model TEXT NOT NULL,
  stratum TEXT NOT NULL,       -- the sampling rule
  labels TEXT NOT NULL, evaluator INTEGER NOT NULL,  -- the id of the first series of evaluator and stratum
  UNIQUE (metric, fingerprint, stratum, labels)
);

-- What is filtered, sorted or summed of each result; times are milliseconds since 1970.
CREATE TABLE results (
  id INTEGER PRIMARY KEY,
  result_id BLOB NOT NULL UNIQUE,
  event_id TEXT NOT NULL,
  replay INTEGER NOT NULL,    -- 0: the live stream
  series INTEGER NOT NULL,
  evaluator INTEGER NOT NULL,
  labels TEXT NOT NULL,       -- all of them, JSON
  status TEXT NOT NULL,
  score NUMERIC,              -- to three digits
  at INTEGER NOT NULL,        -- time of the answer
  day INTEGER NOT NULL,       -- its day since 1970 (UTC)
  judged INTEGER NOT NULL,
  probability REAL NOT NULL,
  cluster TEXT,               -- what was sampled together
  cost REAL,
  marks TEXT NOT NULL,        -- " correction:KIND suspicion:KIND ", or empty
  partition INTEGER NOT NULL, -- place of the result's record
  offset INTEGER NOT NULL
);
-- In the order of the charts' groups, by time and by label, so that no row is sorted.
CREATE INDEX results_sums ON results (replay, day, evaluator, status, score, probability, at, cost, series, marks);
CREATE INDEX results_series ON results (replay, series, status, score, probability, at, day, marks);
-- In the order of a list, with what filters need, so that a page reads the index and fifty rows.
CREATE INDEX results_score ON results (replay, status, score, at DESC, series, marks, day);
CREATE INDEX results_time ON results (replay, at, series, status, score, probability, marks, day);
CREATE INDEX results_event ON results (event_id);
CREATE INDEX results_marks ON results (marks) WHERE marks <> '';

-- The whole record of each result, compressed.
CREATE TABLE bodies (id INTEGER PRIMARY KEY, body BLOB NOT NULL);

-- The texts as judged, already redacted in the task.
CREATE TABLE texts (id INTEGER PRIMARY KEY, result_id BLOB NOT NULL UNIQUE, at INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX texts_time ON texts (at);
CREATE VIRTUAL TABLE search USING fts5(words, content='', detail=none, tokenize='unicode61 remove_diacritics 2');

CREATE TABLE alerts (alert_id TEXT PRIMARY KEY, raised INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX alerts_time ON alerts (raised);

-- Human labels: append only; each person's latest counts.
CREATE TABLE labels (
  label_id TEXT PRIMARY KEY, result_id BLOB NOT NULL, at INTEGER NOT NULL, who TEXT NOT NULL, body BLOB NOT NULL
);
CREATE INDEX labels_result ON labels (result_id, at);

-- The next offset of each partition, written in the same transaction as its records.
CREATE TABLE positions (topic TEXT NOT NULL, partition INTEGER NOT NULL, next INTEGER NOT NULL,
  PRIMARY KEY (topic, partition));
