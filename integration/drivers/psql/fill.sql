insert into products select i, 'product ' || i, i * 1.5 from generate_series(1, 20) i;
insert into customers select i, 'customer ' || i, (array['sad', 'ok', 'happy']::mood[])[1 + i % 3], row('street ' || i, 'city')::address, array['t' || i % 3, null], i * 2.5, '2024-01-01 00:00:00+00' from generate_series(1, 50) i;
insert into orders (customer_id, id, status, note) select 1 + i % 50, i, (array['open', 'paid'])[1 + i % 2], jsonb_build_object('n', i) from generate_series(1, 150) i;
insert into items select 1 + i % 50, i, l, 1 + (i + l) % 20, l from generate_series(1, 150) i, generate_series(1, 2) l;
insert into users select i, 'user' || i || '@example.com', i from generate_series(1, 50) i;
insert into events select i, timestamptz '2023-12-01 00:00:00+00' + i * interval '20 days', E'tab\there\nline ' || i from generate_series(1, 30) i;
insert into notes (body) select 'note ' || i from generate_series(1, 5) i;
select setval('customers_id_seq', 1000), setval('orders_id_seq', 1000), setval('users_id_seq', 1000);
