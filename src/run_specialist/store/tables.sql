CREATE TABLE calls (
  run_id VARCHAR NOT NULL,
  number INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  at FLOAT NOT NULL,
  seconds FLOAT NOT NULL,
  call_id BLOB NOT NULL,
  name BLOB NOT NULL,
  arguments BLOB,
  characters INTEGER NOT NULL,
  is_error BOOLEAN NOT NULL,
  note BLOB NOT NULL,
  repeated BOOLEAN NOT NULL,
  PRIMARY KEY (run_id, number)
);
CREATE TABLE events (
  run_id VARCHAR NOT NULL,
  number INTEGER NOT NULL,
  at FLOAT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (run_id, number)
);
CREATE TABLE messages (
  run_id VARCHAR NOT NULL,
  part INTEGER NOT NULL,
  place INTEGER NOT NULL,
  role VARCHAR NOT NULL,
  blocks BLOB NOT NULL,
  words BLOB,
  copied BOOLEAN NOT NULL,
  PRIMARY KEY (run_id, part, place)
);
CREATE TABLE outputs (
  run_id VARCHAR NOT NULL,
  number INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (run_id, number)
);
CREATE TABLE runs (
  run_id VARCHAR NOT NULL,
  parent_id VARCHAR,
  specialist VARCHAR NOT NULL,
  model VARCHAR NOT NULL,
  question BLOB NOT NULL,
  status VARCHAR NOT NULL,
  started_at FLOAT NOT NULL,
  ended_at FLOAT,
  owner VARCHAR NOT NULL,
  tool_calls INTEGER NOT NULL,
  cost_usd FLOAT,
  frozen BLOB NOT NULL,
  standing BLOB,
  outcome BLOB,
  PRIMARY KEY (run_id)
);
CREATE INDEX ix_runs_parent_id ON runs (parent_id);
CREATE INDEX runs_by_specialist ON runs (specialist, started_at);
CREATE INDEX runs_by_start ON runs (started_at);
CREATE TABLE turns (
  run_id VARCHAR NOT NULL,
  number INTEGER NOT NULL,
  at FLOAT NOT NULL,
  seconds FLOAT NOT NULL,
  choice VARCHAR NOT NULL,
  words BLOB,
  landing BOOLEAN NOT NULL,
  stop VARCHAR NOT NULL,
  reason BLOB NOT NULL,
  blocks BLOB NOT NULL,
  more_room_helps BOOLEAN NOT NULL,
  input_tokens INTEGER NOT NULL,
  cache_read_input_tokens INTEGER NOT NULL,
  cache_creation_input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cost_usd FLOAT,
  PRIMARY KEY (run_id, number)
);
CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  PRIMARY KEY (version_num)
);
INSERT INTO alembic_version (version_num) VALUES ('0002')
