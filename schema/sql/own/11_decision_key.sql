-- Decisions are unique by name and proof. Every role may enter a row and may see the names of transactions that are
-- being prepared: a row with a false proof must not be in the way of the row that weft enters.
DELETE FROM weft.decision WHERE proof IS NULL;
ALTER TABLE weft.decision DROP CONSTRAINT IF EXISTS decision_pkey;
ALTER TABLE weft.decision ADD CONSTRAINT decision_pkey PRIMARY KEY (gid, proof);
