-- One replica creates the tables, the others wait for it: CREATE TABLE IF NOT EXISTS alone fails when two run at once.
BEGIN;
SELECT pg_advisory_xact_lock(4711);

-- token is the fencing token of the last lock holder that used the row. Tokens are BIGINT: microseconds of the Redis server's clock,
-- about 1.8e15 in 2026, far below the 9.2e18 of a BIGINT and above what an INTEGER can hold.
CREATE TABLE IF NOT EXISTS wallets (id TEXT PRIMARY KEY, cents BIGINT NOT NULL, token BIGINT NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS items (id TEXT PRIMARY KEY, pieces BIGINT NOT NULL, token BIGINT NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, cents BIGINT NOT NULL, state TEXT NOT NULL DEFAULT 'new', token BIGINT NOT NULL DEFAULT 0);

-- What has happened. No unique index stands in the way of a second payment: the locks have to.
CREATE TABLE IF NOT EXISTS reservations (order_id TEXT NOT NULL, item_id TEXT NOT NULL, pieces BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS payments (order_id TEXT NOT NULL, wallet_id TEXT NOT NULL, cents BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS transfers (id TEXT NOT NULL, cents BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS labels (order_id TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS reservations_order ON reservations (order_id);
CREATE INDEX IF NOT EXISTS transfers_id ON transfers (id);

CREATE TABLE IF NOT EXISTS reports (payments BIGINT NOT NULL, cents BIGINT NOT NULL);
COMMIT;
