# Unique values that PostgreSQL computes: generated columns with the values of expressions, and of a part of the rows.
@setup
create table members (id int primary key, email text, gone date, org int, slug text,
  email_lower text generated always as (lower(email)) stored unique,
  slug_unique text generated always as (case when gone is null then slug end) stored, unique (org, slug_unique));
insert into members (id, email, org, slug) select g, 'M' || g || '@x', g % 3, 's' || g from generate_series(1, 20) g;

@weft
select weft.shard_table('members', 'id');

@data
delete from members;
insert into members (id, email, org, slug) select g, 'M' || g || '@x', g % 3, 's' || g from generate_series(1, 20) g;

@route
select id from members where email_lower = 'm7@x';
select id from members where email_lower = lower($1);
  -- text:M8@X
  -- varchar:m9@X
  -- unknown:M10@x
  -- text:NIXM8@X
  -- text:ÄM8@X
  -- text:NULL
select id from members where email_lower = lower('M7@X');
select id from members where email_lower in (lower('M7@X'), 'm8@x', lower($1::text)) order by id;
  -- text:M9@X
select id from members where upper($1) = email_lower or email_lower = upper(lower('m5@x'));
  -- text:m8@x
select id from members where email_lower = lower('M1@X') and slug = lower($1);
  -- text:S1
select m.id from members m join members n on n.id = m.id where n.email_lower = lower($1) and m.slug <> $1;
  -- text:M4@X
select id from members where org = 1 and slug_unique = 's7';
insert into members (id, email, org, slug) values (101, 'New@x', 1, 'new'), (102, null, null, 's1'), (103, null, 1, null);
update members set email = 'm9@X' where id = 9;
update members set gone = '2020-01-01' where org = 2;
insert into members (id, org, slug) values (104, 2, 's5'), (105, 2, 's8');
delete from members where email_lower = 'm3@x';
insert into members (id, email) values (106, 'm3@X');
@tables

@error
insert into members (id, email) values (107, 'NEW@X');
insert into members (id, email) values (107, 'a'), (108, 'A');
update members set email = 'M1@x' where id = 2;
insert into members (id, org, slug) values (109, 1, 's7');
update members set gone = null where id = 5;
update members set org = 2, slug = 's8' where id = 1;

@maybe
insert into members (id, email) values (110, 'm1@X') on conflict (email_lower) do nothing;
insert into members (id, email) values (111, 'm2@X') on conflict do nothing;
insert into members (id, email) values (112, 'm4@X') on conflict (email_lower) do update set gone = '2021-01-01';

@route
begin;
delete from members where id = 14;
insert into members (id, email) values (113, 'm14@x');
commit;
begin;
update members set email = 'other' where id = 15;
insert into members (id, email) values (114, 'm15@x');
rollback;
select id, email from members where email_lower in ('m14@x', 'm15@x') order by id;
@tables
