# Several unique indexes on the same columns: one lookup keeps them all, and the oldest is named.
@setup
create table d (id int primary key, u int unique, v int);
alter table d add constraint zz unique (u);
alter table d add constraint aa unique (u);
create table e (id int primary key, u int unique);
alter table e add constraint ee unique (u);

@weft
select weft.shard_table('d', 'id');
select weft.shard_table('e', 'id');

@route
insert into d values (1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4);
insert into e values (1, 1), (2, 2), (3, 3), (4, 4);

@error
insert into d values (9, 1, 9);
insert into d values (10, 1, 9);
insert into d values (11, 1, 9);
insert into d values (9, 9, 9), (10, 1, 9);
update d set u = 1 where id = 2;
update d set u = 1 where id = 3;

@route
create unique index bb on d (u);
alter table d drop constraint d_u_key;
insert into e values (9, 1) on conflict on constraint ee do nothing;
insert into e values (10, 1) on conflict on constraint e_u_key do nothing;
insert into e values (11, 1) on conflict (u) do nothing;
insert into e values (12, 1) on conflict (u) do update set u = 100;
insert into e values (12, 2) on conflict on constraint ee do update set u = 200;
insert into e values (12, 3) on conflict on constraint e_u_key do update set u = 300;

@error
insert into d values (9, 1, 9);
insert into d values (10, 1, 9);
update d set u = 1 where id = 2;

@route
alter table d add unique (u);
reindex table d;
create unique index cc on d (v);
alter table d add constraint dd unique using index cc;

@error
insert into d values (9, 1, 9);
insert into d values (10, 1, 9);
insert into d values (11, 20, 1);
insert into d values (12, 20, 1);

@tables
