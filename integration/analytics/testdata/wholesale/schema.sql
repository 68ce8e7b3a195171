-- A wholesaler of parts: makers offer goods, buyers order them, a sale has lines.
create table area (
	area_id int4 primary key,
	area_name varchar(20) not null
);
create table land (
	land_id int4 primary key,
	land_name varchar(25) not null,
	area_id int4 not null
);
create table maker (
	maker_id int8 not null,
	maker_name varchar(25) not null,
	street varchar(40) not null,
	land_id int4 not null,
	phone char(15) not null,
	balance numeric(12,2) not null,
	note text not null
);
create table good (
	good_id int8 not null,
	title varchar(55) not null,
	brand char(10) not null,
	kind varchar(25) not null,
	size int4 not null,
	box varchar(12) not null,
	list_price numeric(12,2) not null,
	weight float8 not null
);
create table stock (
	good_id int8 not null,
	maker_id int8 not null,
	on_hand int4 not null,
	cost numeric(12,2) not null
);
create table buyer (
	buyer_id int8 not null,
	buyer_name varchar(25) not null,
	street varchar(40) not null,
	land_id int4 not null,
	phone char(15) not null,
	balance numeric(12,2) not null,
	segment char(10) not null,
	note text
);
create table sale (
	sale_id int8 not null,
	buyer_id int8 not null,
	state char(1) not null,
	total numeric(12,2) not null,
	placed date not null,
	urgency char(12) not null,
	clerk varchar(15) not null,
	note text not null
);
create table line (
	sale_id int8 not null,
	line_no int4 not null,
	good_id int8 not null,
	maker_id int8 not null,
	qty numeric(8,2) not null,
	amount numeric(12,2) not null,
	discount numeric(4,2) not null,
	tax numeric(4,2) not null,
	returned char(1) not null,
	state char(1) not null,
	shipped date not null,
	promised date not null,
	received date not null,
	instruct varchar(20) not null,
	carrier char(8) not null
);
create index on maker (maker_id);
create index on good (good_id);
create index on stock (good_id, maker_id);
create index on buyer (buyer_id);
create index on sale (sale_id);
create index on sale (buyer_id);
create index on line (sale_id);
create index on line (good_id, maker_id);
