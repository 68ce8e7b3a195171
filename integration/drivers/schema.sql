-- The application of the suites that write SQL themselves. Those with an ORM
-- make the same tables with its migrations.
CREATE TYPE order_status AS ENUM ('new', 'paid', 'shipped', 'cancelled');
CREATE TYPE address AS (street text, number int, city text);

CREATE TABLE products (
    id    serial PRIMARY KEY,
    name  text NOT NULL UNIQUE,
    price numeric(10,2) NOT NULL CHECK (price >= 0)
);

CREATE TABLE customers (
    id         bigserial PRIMARY KEY,
    name       varchar(100) NOT NULL,
    country    char(2) NOT NULL,
    home       address,
    tags       text[] NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE orders (
    id          bigserial PRIMARY KEY,
    customer_id bigint NOT NULL REFERENCES customers ON DELETE CASCADE,
    status      order_status NOT NULL DEFAULT 'new',
    total       numeric(12,2) NOT NULL DEFAULT 0,
    note        jsonb,
    placed_at   timestamptz NOT NULL DEFAULT now(),
    UNIQUE (customer_id, id)
);
CREATE INDEX orders_placed ON orders (placed_at);

CREATE TABLE items (
    id          bigserial PRIMARY KEY,
    customer_id bigint NOT NULL,
    order_id    bigint NOT NULL,
    product_id  int NOT NULL REFERENCES products,
    quantity    int NOT NULL CHECK (quantity > 0),
    price       numeric(10,2) NOT NULL,
    FOREIGN KEY (customer_id, order_id) REFERENCES orders (customer_id, id) ON DELETE CASCADE
);

CREATE TABLE users (
    id    uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    email text NOT NULL UNIQUE,
    name  text NOT NULL
);

-- One column for each type that drivers encode by themselves.
CREATE TABLE samples (
    id     uuid PRIMARY KEY,
    b      boolean,
    i2     smallint,
    i4     integer,
    i8     bigint,
    f4     real,
    f8     double precision,
    num    numeric(30,10),
    t      text,
    vc     varchar(20),
    raw    bytea,
    d      date,
    tm     time,
    ts     timestamp,
    tstz   timestamptz,
    iv     interval,
    j      json,
    jb     jsonb,
    i4s    integer[],
    ts_    text[],
    nums   numeric[],
    uuids  uuid[],
    st     order_status,
    sts    order_status[],
    addr   address,
    ip     inet,
    r      int4range
);
