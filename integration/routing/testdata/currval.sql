# The id that the session has drawn last, stored in rows of other tables. Which ids there are is weft's to choose, so conditions on them are
# compared.
@setup
create table parents (tenant int, id bigserial, v text, primary key (tenant, id));
create table children (tenant int, id bigserial, parent_id bigint, v text, primary key (tenant, id));
create table items (tenant int, parent_id bigint, v text, note text default 'none', primary key (tenant, parent_id, v));
create table byparent (parent_id bigint, small int, v text);
create table strict (tenant int, id int generated always as identity, parent_id int, primary key (tenant, id));
create table free (tenant int primary key, parent_id text);
@weft
select weft.shard_table('parents', 'tenant');
select weft.shard_table('children', 'tenant');
select weft.shard_table('items', 'tenant');
select weft.shard_table('byparent', 'parent_id');
select weft.shard_table('strict', 'tenant');
select weft.shard_table('free', 'tenant');
@data
truncate parents, children, items, byparent, strict, free restart identity;

@mask id parent_id
@error
insert into items (tenant, parent_id, v) values (1, lastval(), 'too early');
insert into children (tenant, parent_id, v) values (1, currval('parents_id_seq'), 'too early');
@route
insert into parents (tenant, v) values (1, 'one');
insert into children (tenant, parent_id, v) values (1, currval('parents_id_seq'), 'a');
insert into children (tenant, parent_id, v) values (1, currval('public.parents_id_seq'), 'b'), (1, pg_catalog.currval('parents_id_seq'::regclass), 'c');
select p.v, c.v from parents p join children c on c.tenant = p.tenant and c.parent_id = p.id order by 1, 2;
# Another shard, and rows on several.
insert into parents (tenant, v) values (2, 'two');
insert into children (tenant, parent_id, v) values (2, currval('parents_id_seq'), 'd'), (3, currval('parents_id_seq'), 'e'), (4, 17, 'f'), (5, default, 'g') returning v, parent_id > 0 as given;
insert into children (tenant, parent_id, v) values ($1, currval('parents_id_seq'), $2) returning tenant, v;
-- int4:6 | text:h
-- int4:7 | text:i
select p.v, c.tenant, c.v from parents p join children c on c.parent_id = p.id order by 1, 2, 3;
# As the shard key.
insert into byparent values (currval('parents_id_seq'), 1, 'key') returning small, v;
insert into byparent (v, parent_id) values ('second', currval('parents_id_seq'));
select p.v, b.v from parents p join byparent b on b.parent_id = p.id order by 1, 2;
# lastval, where the row draws nothing itself.
insert into parents (tenant, v) values (7, 'seven');
insert into items (tenant, parent_id, v) values (7, lastval(), 'x') returning v, note;
insert into items (tenant, parent_id, v) values (7, lastval(), 'y'), (8, lastval(), 'z') returning tenant, v;
insert into free values (7, lastval()) returning tenant;
select p.v, i.tenant, i.v from parents p join items i on i.parent_id = p.id order by 1, 2, 3;
select p.v, f.tenant from parents p join free f on f.parent_id = p.id::text order by 1, 2;
# Where the statement itself draws from the sequence, PostgreSQL's answer depends on the order of columns.
@maybe
insert into children (tenant, parent_id, v) values (17, lastval(), 'l') returning parent_id = id as own;
insert into children (tenant, id, parent_id, v) values (17, nextval('children_id_seq'), currval('children_id_seq'), 'own') returning parent_id = id as own;
insert into children (tenant, parent_id, v) values (17, currval('children_id_seq'), 'own') returning parent_id = id as own;
insert into children (tenant, parent_id, v) select 17, currval('parents_id_seq'), 'q' returning v;
insert into children (tenant, parent_id, v) values (17, currval('parents_id_seq') + 1, 'q') returning v;
insert into items (tenant, parent_id, v, note) values (17, currval('parents_id_seq'), 'n', lastval()::text || '!') returning note = currval('parents_id_seq') || '!' as same;
update items set parent_id = currval('parents_id_seq') where tenant = 8 returning v;
delete from children where tenant = 17;
delete from items where tenant = 17;
@route
insert into children (tenant, id, parent_id, v) values (7, 1000000, currval('parents_id_seq'), 'given') returning v;
# Casts, comments, other kinds of columns.
insert into strict (tenant, parent_id) values (7, currval( /* the parent */ 'parents_id_seq' ));
insert into strict (tenant, parent_id) overriding user value values (8, currval('parents_id_seq'));
select p.v, s.tenant from parents p join strict s on s.parent_id = p.id order by 1, 2;
@error
insert into children (tenant, parent_id, v) values (1, currval('nothing_seq'), 'a');
insert into children (tenant, parent_id, v) values (1, currval('parents_id_seq', 1), 'a');
@route
insert into items (tenant, parent_id, v) values (7, currval('parents_id_seq'), 'x') on conflict (tenant, parent_id, v) do update set note = 'again' returning v, note;
begin;
insert into parents (tenant, v) values (9, 'nine');
insert into children (tenant, parent_id, v) values (9, currval('parents_id_seq'), 'block'), (10, currval('parents_id_seq'), 'block');
savepoint a;
insert into parents (tenant, v) values (10, 'ten');
rollback to a;
insert into children (tenant, parent_id, v) values (11, currval('parents_id_seq'), 'gone');
commit;
select p.v, c.tenant, c.v from children c left join parents p on p.id = c.parent_id order by 1, 2, 3;
select p.v, i.tenant, i.v from items i left join parents p on p.id = i.parent_id order by 1, 2, 3;
select nextval('parents_id_seq') as id;
insert into items (tenant, parent_id, v) values (12, currval('parents_id_seq'), 'w');
insert into items (tenant, parent_id, v) values (12, lastval(), 'w2');
select count(*), count(distinct parent_id), count(p.id) from items i left join parents p on p.id = i.parent_id where i.tenant = 12;
# Several statements in one text, and in a text that is one transaction.
@simple
insert into parents (tenant, v) values (20, 'twenty'); insert into children (tenant, parent_id, v) values (20, currval('parents_id_seq'), 'text'), (21, currval('parents_id_seq'), 'text');
select p.v, c.tenant, c.v from children c left join parents p on p.id = c.parent_id where c.tenant > 19 order by 1, 2, 3;
@route
do $$ begin insert into parents (tenant, v) values (22, 'do'); insert into children (tenant, parent_id, v) values (22, currval('parents_id_seq'), 'do'); end $$;
select p.v, c.tenant, c.v from children c left join parents p on p.id = c.parent_id where c.tenant = 22 order by 1, 2, 3;
prepare child (int, text) as insert into children (tenant, parent_id, v) values ($1, currval('parents_id_seq'), $2);
insert into parents (tenant, v) values (30, 'thirty');
execute child (30, 'executed');
insert into parents (tenant, v) values (31, 'more');
execute child (31, 'executed');
deallocate child;
select p.v, c.tenant, c.v from children c left join parents p on p.id = c.parent_id where c.tenant >= 30 order by 1, 2, 3;
