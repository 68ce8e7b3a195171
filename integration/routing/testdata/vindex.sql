# Every kind of vindex, and Citus's names.
@setup
create table v_range (k int8, v text);
# No zone is declared for others, so weft stores none. Here that is a rule of the table.
create table v_list (region text check (region in ('eu', 'uk', 'us')), v text);
create table v_identity (k int8, v text);
create table v_reverse (k int8, v text);
create table v_salted (k int8, salt int8, v text);
create table v_lookup (tenant text, v text);
create table v_lookup_u (id int8 primary key, v text);
create table v_days (tenant int4, at timestamptz, v text);
create table v_citus (k int8, v text);
create table v_citus_ref (k int8, v text);
insert into v_lookup values ('early', 'e1'), ('early', 'e2'), ('bird', 'b');
insert into v_citus select i, 'c' || i from generate_series(1, 30) i;
insert into v_citus_ref select i, 'r' || i from generate_series(1, 5) i;
@weft
select weft.shard_table('v_range', 'k', vindex => 'range', params => '{"zones": [{"below": 100, "buckets": "0-15"}, {"below": 200, "buckets": "16-31"}, {"buckets": "32-63"}]}');
select weft.shard_table('v_list', 'region', vindex => 'list', params => '{"zones": [{"values": ["eu", "uk"], "buckets": "0-31"}, {"values": ["us"], "buckets": "32-47"}]}');
select weft.shard_table('v_identity', 'k', vindex => 'identity');
select weft.shard_table('v_reverse', 'k', vindex => 'reverse_bits');
select weft.shard_table('v_salted', 'k, salt', vindex => 'salted', params => '{"spread": 4}');
select weft.shard_table('v_lookup', 'tenant', vindex => 'lookup', name => 'tenant_dir');
select weft.shard_table('v_lookup_u', 'id', vindex => 'lookup_unique', name => 'id_dir');
select weft.shard_table('v_days', 'tenant, at', vindex => 'composite', params => '{"parts": [{"bits": 3}, {"kind": "time_bucket", "unit": "day"}]}');
select create_distributed_table('v_citus', 'k');
select create_reference_table('v_citus_ref');
@tables

@route
insert into v_range values (5, 'low');
insert into v_range values (150, 'middle');
insert into v_range values (100, 'edge');
insert into v_range values (99999, 'high');
insert into v_range values (-1, 'negative');
insert into v_range values (null, 'none');
insert into v_range values ($1, $2);
  -- int8:199 | text:p
  -- int8:200 | text:p
select v from v_range where k = 150;
select v from v_range where k = 99999;
select v from v_range where k is null;
select v from v_range where k = $1;
  -- int8:100
  -- int8:199
  -- int8:200

insert into v_list values ('eu', 'a');
insert into v_list values ('us', 'b');
select v from v_list where region = 'eu';
select v from v_list where region = 'uk';
select v from v_list where region = $1;
  -- text:us
update v_list set v = 'c' where region = 'us' returning v;

insert into v_identity values (1, 'a');
insert into v_identity values (-9223372036854775808, 'least');
insert into v_identity values (9223372036854775807, 'most');
insert into v_identity values (4611686018427387904, 'middle');
select v from v_identity where k = 4611686018427387904;
select v from v_identity where k = -9223372036854775808;
select v from v_identity where k = '9223372036854775807';

insert into v_reverse values (1, 'a');
insert into v_reverse values (2, 'b');
insert into v_reverse values (3, 'c');
select v from v_reverse where k = 3;
select v from v_reverse where k = $1;
  -- int8:1
  -- int8:2

insert into v_salted values (1, 1, 'a');
insert into v_salted values (1, 2, 'b');
insert into v_salted values (1, 3, 'c');
select v from v_salted where k = 1 and salt = 2;
update v_salted set v = 'z' where k = 1 and salt = 3 returning v;

select v from v_lookup where tenant = 'early' order by v;
insert into v_lookup values ('new', 'n');
insert into v_lookup values ('early', 'e3');
insert into v_lookup values ($1, $2);
  -- text:param | text:1
  -- text:param | text:2
select v from v_lookup where tenant = 'new';
select v from v_lookup where tenant = 'early' order by v;
select v from v_lookup where tenant = $1 order by v;
  -- text:param
  -- text:nosuch
delete from v_lookup where tenant = 'bird';

insert into v_lookup_u values (7, 'a');
insert into v_lookup_u values (8, 'b');
select v from v_lookup_u where id = 7;

insert into v_days values (1, '2024-01-01 10:00:00+00', 'a');
insert into v_days values (1, '2024-01-01 11:00:00+00', 'b');
insert into v_days values (1, '2024-01-02 10:00:00+00', 'c');
select v from v_days where tenant = 1 and at = '2024-01-01 10:00:00+00';

select v from v_citus where k = 7;
select * from v_citus_ref order by k;
select c.v, r.v from v_citus c join v_citus_ref r using (k) where c.k = 3;

@error
insert into v_lookup_u values (7, 'twice');

insert into v_list values ('mars', 'no place');

@maybe
select v from v_list where region = 'mars';
select v from v_salted where k = 1 order by v;
select v from v_days where tenant = 1 order by v;
select v from v_range where k between 100 and 199 order by v;
select v from v_range where k < 100 order by v;
select v from v_range where 100 >= k order by v;
select v from v_range where k > 99 and k <= 200 order by v;
select v from v_range where k between 300 and 200;
select v from v_range where k > 1.5 and k < 150.5 order by v;
select v from v_range where k < 100 or k > 5000 order by v;
select v from v_range where not (k < 100) order by v;
select count(*) from v_range a left join v_range b on b.k > 150 where a.k < 10;
select count(*) from v_lookup;

@tables

@data
truncate v_range, v_list, v_identity, v_reverse, v_salted, v_lookup_u, v_days;
delete from v_lookup where tenant = 'new';
delete from v_lookup where tenant = 'param';
delete from v_lookup where tenant = 'early' and v = 'e3';
delete from v_lookup where tenant = 'bird';
