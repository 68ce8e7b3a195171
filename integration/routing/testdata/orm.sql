# What ORMs and frameworks send, as they spell it: Rails, Django, SQLAlchemy, GORM,
# Hibernate, Ecto, Prisma. Their schema is the shop's.
@include shop

# Ids are weft's to choose: PostgreSQL's next value or a later one.
@mask id t1_r0 orders_id id_1
@route
SELECT "customers".* FROM "customers" WHERE "customers"."id" = $1 LIMIT $2;
  -- int8:3 | int8:1
  -- int8:4 | int8:1
SELECT 1 AS one FROM "orders" WHERE "orders"."customer_id" = $1 LIMIT $2;
  -- int8:3 | int8:1
SELECT "orders".* FROM "orders" WHERE "orders"."customer_id" = $1 ORDER BY "orders"."id" ASC LIMIT $2;
  -- int8:3 | int8:1
  -- int8:5 | int8:11
SELECT COUNT(*) FROM "orders" WHERE "orders"."customer_id" = $1 AND "orders"."status" != $2;
  -- int8:3 | text:paid
INSERT INTO "customers" ("name", "email", "region", "balance", "active", "created") VALUES ($1, $2, $3, $4, $5, $6) RETURNING "id";
  -- varchar:rails | varchar:r@example.com | text:eu | numeric:0.0 | bool:t | date:2024-05-06
  -- text:rails | text:NULL | text:NULL | numeric:10 | bool:f | date:2024-05-07
INSERT INTO "orders" ("customer_id", "status", "total", "note") VALUES ($1, $2, $3, $4) RETURNING "id";
  -- int8:3 | text:new | numeric:1.0 | text:NULL
  -- int8:4 | text:new | numeric:2.0 | text:x
UPDATE "orders" SET "status" = $1, "total" = $2 WHERE "orders"."customer_id" = $3 AND "orders"."id" = $4;
  -- text:paid | numeric:5 | int8:3 | int8:107
DELETE FROM "order_items" WHERE "order_items"."customer_id" = $1 AND "order_items"."id" = $2;
  -- int8:3 | int8:1070
SELECT "customers"."id" AS t0_r0, "customers"."name" AS t0_r1, "orders"."id" AS t1_r0, "orders"."status" AS t1_r1 FROM "customers" LEFT OUTER JOIN "orders" ON "orders"."customer_id" = "customers"."id" WHERE "customers"."id" = $1 ORDER BY t1_r0;
  -- int8:3
  -- int8:12
SELECT "orders"."customer_id", COUNT(*) AS "count_all" FROM "orders" WHERE "orders"."customer_id" = $1 GROUP BY "orders"."customer_id";
  -- int8:5
SELECT orders.id AS orders_id, orders.customer_id AS orders_customer_id, orders.status AS orders_status FROM orders WHERE orders.customer_id = $1::BIGINT ORDER BY orders.id;
  -- unknown:3
SELECT customers.id, customers.name, orders_1.id AS id_1, orders_1.total FROM customers LEFT OUTER JOIN orders AS orders_1 ON customers.id = orders_1.customer_id WHERE customers.id = $1::INTEGER ORDER BY orders_1.id;
  -- int4:3
INSERT INTO customers (name, region) VALUES ($1::VARCHAR, $2::VARCHAR) RETURNING customers.id, customers.balance;
  -- varchar:alchemy | varchar:us
SELECT "customers"."id", "customers"."name" FROM "customers" WHERE "customers"."id" IN (3) LIMIT 21;
SELECT (1) AS "a" FROM "customers" WHERE ("customers"."id" = 3 AND "customers"."active") LIMIT 1;
SELECT "orders"."id", "customers"."name" FROM "orders" INNER JOIN "customers" ON ("orders"."customer_id" = "customers"."id") WHERE "orders"."customer_id" = 3 ORDER BY "orders"."id" ASC;
SELECT COUNT(*) AS "__count" FROM "orders" WHERE "orders"."customer_id" = 3;
UPDATE "customers" SET "balance" = ("customers"."balance" + 5) WHERE "customers"."id" = 3;
SELECT "customers"."id" FROM "customers" WHERE "customers"."id" = 3 LIMIT 1 FOR UPDATE;
SELECT * FROM "customers" WHERE "customers"."id" = 3 ORDER BY "customers"."id" LIMIT 1;
INSERT INTO "orders" ("customer_id","status","total","note") VALUES (3,'gorm',1.5,'x') RETURNING "id";
INSERT INTO "customers" ("name","email","id") VALUES ('gorm','g',77) ON CONFLICT ("id") DO UPDATE SET "name"="excluded"."name","email"="excluded"."email" RETURNING "id";
select c1_0.id,c1_0.name,c1_0.region from customers c1_0 where c1_0.id=$1;
  -- int8:3
select o1_0.customer_id,o1_0.id,o1_0.status from orders o1_0 where o1_0.customer_id=$1 order by o1_0.id offset $2 rows fetch first $3 rows only;
  -- int8:3 | int8:0 | int8:2
update customers set name=$1,region=$2 where id=$3;
  -- varchar:hib | varchar:eu | int8:6
delete from order_items where customer_id=$1 and id=$2;
  -- int8:4 | int8:1100
SELECT o0."id", o0."status", o0."customer_id", o0."customer_id" FROM "orders" AS o0 WHERE (o0."customer_id" = ANY($1)) ORDER BY o0."customer_id", o0."id";
  -- int8[]:{5}
INSERT INTO "orders" ("customer_id","status") VALUES ($1,$2),($3,$4) RETURNING "id";
  -- int8:5 | text:a | int8:5 | text:b
SELECT "public"."customers"."id", "public"."customers"."name" FROM "public"."customers" WHERE ("public"."customers"."id" = $1 AND 1=1) LIMIT $2 OFFSET $3;
  -- int8:3 | int8:1 | int8:0
SELECT "public"."orders"."id" FROM "public"."orders" WHERE "public"."orders"."customer_id" IN ($1) ORDER BY 1 OFFSET $2;
  -- int8:3 | int8:0
SELECT "t0"."id", "t1"."n" FROM "customers" AS "t0" LEFT JOIN LATERAL (SELECT COUNT(*) AS "n" FROM "orders" AS "t2" WHERE "t0"."id" = "t2"."customer_id") AS "t1" ON TRUE WHERE "t0"."id" = $1;
  -- int8:3
BEGIN;
SELECT "customers".* FROM "customers" WHERE "customers"."id" = 4 LIMIT 1 FOR UPDATE;
SAVEPOINT active_record_1;
INSERT INTO "orders" ("customer_id", "status") VALUES (4, 'nested') RETURNING "id";
RELEASE SAVEPOINT active_record_1;
SAVEPOINT active_record_1;
UPDATE "customers" SET "name" = 'rolled back' WHERE "customers"."id" = 4;
ROLLBACK TO SAVEPOINT active_record_1;
COMMIT;
SET client_min_messages TO 'warning';
SET standard_conforming_strings = on;
SET SESSION timezone TO 'UTC';
SHOW max_identifier_length;
SELECT set_config('statement_timeout', '30000', false);

# The catalogs: where the schema is read from.
SELECT tablename FROM pg_tables WHERE schemaname = ANY (current_schemas(false)) ORDER BY 1;
SELECT c.relname, CASE WHEN c.relkind IN ('m', 'v') THEN 'v' ELSE 't' END FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('f', 'm', 'p', 'r', 'v') AND n.nspname NOT IN ('pg_catalog', 'pg_toast', 'information_schema', 'weft') AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1;
SELECT a.attname, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid), a.attnotnull, a.atttypmod, col_description(a.attrelid, a.attnum) AS comment, attidentity AS identity, attgenerated FROM pg_attribute a LEFT JOIN pg_attrdef d ON a.attrelid = d.adrelid AND a.attnum = d.adnum LEFT JOIN pg_type t ON a.atttypid = t.oid WHERE a.attrelid = '"orders"'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum;
SELECT a.attname FROM (SELECT indrelid, indkey, generate_subscripts(indkey, 1) idx FROM pg_index WHERE indrelid = '"orders"'::regclass AND indisprimary) i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[i.idx] ORDER BY i.idx;
SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns WHERE table_schema = 'public' ORDER BY table_name, ordinal_position;
SELECT conname, contype, pg_get_constraintdef(oid, true) FROM pg_constraint WHERE conrelid = 'orders'::regclass ORDER BY conname;
SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1;
SELECT sequence_name, data_type, increment FROM information_schema.sequences WHERE sequence_schema = 'public' ORDER BY 1;
SELECT t.typname FROM pg_type t WHERE t.typname = 'citext';
SELECT has_table_privilege('customers', 'select'), has_table_privilege('orders', 'insert');
SELECT to_regclass('customers')::text, to_regclass('nosuch')::text;
SELECT pg_get_serial_sequence('orders', 'id');
SELECT col.attname FROM pg_attribute col WHERE col.attrelid = 'public.customers'::regclass AND col.attnum = 1;
SELECT count(*) > 0 FROM pg_stat_user_tables;
SELECT relname FROM pg_class WHERE oid = 'customers'::regclass;

@maybe
SELECT "customers".* FROM "customers" ORDER BY "customers"."id" ASC LIMIT $1;
  -- int8:1
SELECT "orders".* FROM "orders" WHERE "orders"."id" = $1 LIMIT $2;
  -- int8:107 | int8:1
SELECT "orders".* FROM "orders" WHERE "orders"."customer_id" IN ($1, $2, $3) ORDER BY "orders"."id";
  -- int8:1 | int8:2 | int8:3
UPDATE "orders" SET "status" = $1 WHERE "orders"."id" = $2;
  -- text:z | int8:107

@tables
