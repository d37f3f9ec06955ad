"""The tables and their version. A store of another version is rebuilt from the topics."""

from __future__ import annotations

from typing import Final

VERSION: Final = 4
"""Stored in the file's `user_version`. Increase it with every change of the tables or their contents."""

APPLICATION_ID: Final = 0x6A737472
"""Marks the file as a store of judgestream ("jstr"), so that no other database is overwritten."""

STATUSES: Final = ("scored", "unscored", "failed")
"""The column `status` is an index of this list."""

ALL_PARTS: Final = 0
"""The part of `part_cells` for the whole traffic."""
PART_KIND: Final = "label:"
"""Prefix of the kinds of names that are label values, before the label's name."""
NO_SCORE: Final = -1_000_001
"""Replaces a missing score in `cells`: NULLs in a primary key are never equal."""
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
TABLES: Final = """
CREATE TABLE names (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (kind, name));

CREATE TABLE evaluators (
  id INTEGER PRIMARY KEY, metric INTEGER NOT NULL, fingerprint TEXT NOT NULL, model TEXT NOT NULL,
  first_at INTEGER NOT NULL, UNIQUE (metric, fingerprint)
);

-- Each distinct set of labels once. `grouped` is its set for sums: without labels of too many values.
CREATE TABLE label_sets (id INTEGER PRIMARY KEY, labels TEXT NOT NULL UNIQUE, grouped INTEGER NOT NULL);
CREATE TABLE label_values (
  name TEXT NOT NULL, value TEXT NOT NULL, set_id INTEGER NOT NULL, PRIMARY KEY (name, value, set_id)
) WITHOUT ROWID;

CREATE TABLE verdicts (
  id INTEGER PRIMARY KEY,
  result_id BLOB NOT NULL UNIQUE,
  event_id TEXT NOT NULL,
  replay INTEGER NOT NULL,        -- 0: the live stream
  metric INTEGER NOT NULL,
  evaluator INTEGER NOT NULL,
  labels INTEGER NOT NULL,
  status INTEGER NOT NULL,
  score NUMERIC,                  -- exact, not rounded
  at INTEGER NOT NULL,            -- time of the answer, milliseconds since 1970
  judged INTEGER NOT NULL,
  probability REAL NOT NULL,
  cost REAL,
  corrected INTEGER NOT NULL,     -- number of corrections
  suspected INTEGER NOT NULL,     -- number of suspicions
  partition INTEGER NOT NULL,     -- position of the result's record
  offset INTEGER NOT NULL
);
-- With metric and labels, so that the index alone finds a page of the worst.
CREATE INDEX verdicts_worst ON verdicts (replay, status, score, at DESC, metric, labels);
CREATE INDEX verdicts_time ON verdicts (replay, at);
CREATE INDEX verdicts_labels ON verdicts (labels, replay, status, score, at DESC);
CREATE INDEX verdicts_event ON verdicts (event_id);
CREATE INDEX verdicts_corrected ON verdicts (replay, status, score, at DESC) WHERE corrected > 0;
CREATE INDEX verdicts_suspected ON verdicts (replay, status, score, at DESC) WHERE suspected > 0;

-- The whole record of the topic, compressed.
CREATE TABLE bodies (id INTEGER PRIMARY KEY, body BLOB NOT NULL);

-- Kinds of corrections and suspicions of each verdict.
CREATE TABLE marks (
  sort INTEGER NOT NULL, kind INTEGER NOT NULL, verdict INTEGER NOT NULL, PRIMARY KEY (sort, kind, verdict)
) WITHOUT ROWID;

-- The texts as judged, already redacted in the task; bodies are separate, so that a search with
-- thousands of matches reads few pages.
CREATE TABLE texts (id INTEGER PRIMARY KEY, result_id BLOB NOT NULL UNIQUE, at INTEGER NOT NULL);
CREATE INDEX texts_time ON texts (at);
CREATE TABLE text_bodies (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE VIRTUAL TABLE search USING fts5(words, content='', detail=none, tokenize='unicode61 remove_diacritics 2');

-- Sums of equal live verdicts: with these a chart over months is as fast as one over an hour.
CREATE TABLE cells (
  grain INTEGER NOT NULL, bucket INTEGER NOT NULL, metric INTEGER NOT NULL, evaluator INTEGER NOT NULL,
  labels INTEGER NOT NULL, status INTEGER NOT NULL, score NUMERIC NOT NULL, probability REAL NOT NULL,
  corrected INTEGER NOT NULL, suspected INTEGER NOT NULL, count INTEGER NOT NULL, cost REAL NOT NULL,
  PRIMARY KEY (grain, bucket, metric, evaluator, labels, status, score, probability, corrected, suspected)
) WITHOUT ROWID;

-- The same sums for the whole traffic (part 0) and for each label value (a name of kind "label:" and the label):
-- few, for any number of label sets.
CREATE TABLE part_cells (
  grain INTEGER NOT NULL, part INTEGER NOT NULL, bucket INTEGER NOT NULL, metric INTEGER NOT NULL,
  evaluator INTEGER NOT NULL, status INTEGER NOT NULL, score NUMERIC NOT NULL, probability REAL NOT NULL,
  corrected INTEGER NOT NULL, suspected INTEGER NOT NULL, count INTEGER NOT NULL, cost REAL NOT NULL,
  PRIMARY KEY (grain, part, bucket, metric, evaluator, status, score, probability, corrected, suspected)
) WITHOUT ROWID;

CREATE TABLE alerts (
  alert_id TEXT PRIMARY KEY, raised INTEGER NOT NULL, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX alerts_time ON alerts (raised);

-- Human labels of a verdict: append only; each person's latest counts.
CREATE TABLE labels (
  label_id TEXT PRIMARY KEY, result_id BLOB NOT NULL, at INTEGER NOT NULL, score INTEGER, note TEXT NOT NULL,
  who TEXT NOT NULL, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX labels_result ON labels (result_id, at);

-- The next offset of each partition, written in the same transaction as its records.
CREATE TABLE positions (
  topic TEXT NOT NULL, partition INTEGER NOT NULL, next INTEGER NOT NULL, PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
"""  # noqa: E501
