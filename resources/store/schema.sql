-- Schema 1 of the run store. Reals: NULL is NaN (SQLite cannot hold one). Times: Unix milliseconds.
CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  ulid TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  status TEXT NOT NULL,
  status_text TEXT NOT NULL DEFAULT '',
  step INTEGER NOT NULL DEFAULT 0,
  steps INTEGER NOT NULL DEFAULT 0,
  has_loss INTEGER NOT NULL DEFAULT 0,
  loss REAL,
  finite_loss REAL,
  has_val INTEGER NOT NULL DEFAULT 0,
  val_loss REAL,
  finite_val REAL,
  val_step INTEGER NOT NULL DEFAULT 0,
  tokens_per_s REAL NOT NULL DEFAULT 0,
  tokens INTEGER NOT NULL DEFAULT 0,
  device TEXT NOT NULL DEFAULT '',
  device_name TEXT NOT NULL DEFAULT '',
  model TEXT NOT NULL DEFAULT '',
  recipe TEXT NOT NULL DEFAULT '',
  preset TEXT NOT NULL DEFAULT '',
  seed INTEGER NOT NULL DEFAULT 0,
  created_ms INTEGER NOT NULL DEFAULT 0,
  started_ms INTEGER NOT NULL DEFAULT 0,
  ended_ms INTEGER NOT NULL DEFAULT 0,
  commit_ms INTEGER NOT NULL DEFAULT 0,
  seconds REAL NOT NULL DEFAULT 0,
  plan_bytes INTEGER NOT NULL DEFAULT 0,
  peak_bytes INTEGER NOT NULL DEFAULT 0,
  tags TEXT NOT NULL DEFAULT '[]',
  note TEXT NOT NULL DEFAULT '',
  colour INTEGER NOT NULL DEFAULT 0,
  alerts INTEGER NOT NULL DEFAULT 0,
  worst_alert INTEGER NOT NULL DEFAULT 0,
  parent TEXT NOT NULL DEFAULT '',
  parent_step INTEGER NOT NULL DEFAULT 0,
  segment INTEGER NOT NULL DEFAULT 0,
  hidden INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE document (
  run INTEGER PRIMARY KEY REFERENCES run(id) ON DELETE CASCADE,
  spec TEXT NOT NULL,
  catalogue TEXT NOT NULL DEFAULT '[]',
  precision TEXT NOT NULL DEFAULT '[]',
  details TEXT NOT NULL DEFAULT '{}'
) STRICT;

-- A resume opens a new segment. Steps of older segments from first_step on are superseded tails.
CREATE TABLE segment (
  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  segment INTEGER NOT NULL,
  first_step INTEGER NOT NULL,
  started_ms INTEGER NOT NULL,
  PRIMARY KEY (run, segment)
) STRICT, WITHOUT ROWID;

CREATE TABLE metric_summary (
  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  metric INTEGER NOT NULL,
  last REAL,
  min REAL,
  max REAL,
  best REAL,
  last_finite REAL,
  last_step INTEGER NOT NULL,
  count INTEGER NOT NULL,
  non_finite INTEGER NOT NULL,
  PRIMARY KEY (run, metric)
) STRICT, WITHOUT ROWID;

-- Hot tail: all metrics of one step, packed (experiments/store/step_record.h).
CREATE TABLE step_blob (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  segment INTEGER NOT NULL,
  step INTEGER NOT NULL,
  data BLOB NOT NULL,
  UNIQUE (run, segment, step)
) STRICT;

-- Closed ranges, one series each (experiments/store/series_chunk.h). steps: NULL when start, start + 1, …
CREATE TABLE chunk (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  segment INTEGER NOT NULL,
  series INTEGER NOT NULL,
  start INTEGER NOT NULL,
  n INTEGER NOT NULL,
  steps BLOB,
  data BLOB NOT NULL,
  min REAL,
  max REAL,
  non_finite INTEGER NOT NULL,
  UNIQUE (run, segment, series, start)
) STRICT;

-- A range counts only when it is here; until then its chunks are unfinished and its blobs are read.
CREATE TABLE chunk_range (
  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  segment INTEGER NOT NULL,
  first_step INTEGER NOT NULL,
  last_step INTEGER NOT NULL,
  PRIMARY KEY (run, segment, first_step)
) STRICT, WITHOUT ROWID;

CREATE TABLE exponents (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  segment INTEGER NOT NULL,
  step INTEGER NOT NULL,
  data BLOB NOT NULL,
  UNIQUE (run, segment, step)
) STRICT;

CREATE TABLE evaluation (
  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  segment INTEGER NOT NULL,
  step INTEGER NOT NULL,
  loss REAL,
  PRIMARY KEY (run, segment, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  step INTEGER NOT NULL,
  time_ms INTEGER NOT NULL,
  kind TEXT NOT NULL,
  text TEXT NOT NULL,
  alert TEXT NOT NULL DEFAULT '',
  severity INTEGER NOT NULL DEFAULT 0,
  layer TEXT NOT NULL DEFAULT '',
  tensor TEXT NOT NULL DEFAULT '',
  tensor_index INTEGER NOT NULL DEFAULT -1
) STRICT;
CREATE INDEX event_run ON event(run, id);

CREATE TABLE checkpoint (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  step INTEGER NOT NULL,
  time_ms INTEGER NOT NULL,
  path TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  on_disk INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX checkpoint_run ON checkpoint(run, step);

CREATE TABLE command (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,
  command TEXT NOT NULL,
  argument TEXT NOT NULL,
  created_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX command_run ON command(run, id);

CREATE TABLE setting (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
