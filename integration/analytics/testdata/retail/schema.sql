-- A retailer with three channels: shops, orders by post, orders on the net. What comes back has tables of its own.
create table day (
	day_id int4 primary key,
	day date not null,
	year int4 not null,
	quarter int4 not null,
	month int4 not null,
	month_seq int4 not null,
	week_seq int4 not null,
	weekday int4 not null,
	day_name char(9) not null,
	weekend bool not null
);
create table clock (
	clock_id int4 primary key,
	hour int4 not null,
	minute int4 not null,
	meal varchar(10)
);
create table ware (
	ware_id int8 not null,
	code char(10) not null,
	title varchar(60) not null,
	price numeric(7,2) not null,
	brand_id int4 not null,
	brand varchar(30) not null,
	class varchar(20) not null,
	category varchar(20) not null,
	maker_id int4 not null,
	maker varchar(20) not null,
	color varchar(12),
	unit char(6) not null,
	size varchar(10) not null,
	weight float8 not null
);
create table place (
	place_id int8 not null,
	street varchar(40) not null,
	city varchar(30) not null,
	county varchar(30) not null,
	state char(2) not null,
	zip char(5) not null,
	country varchar(20) not null,
	gmt numeric(5,2) not null
);
create table profile (
	profile_id int4 primary key,
	sex char(1) not null,
	marital char(1) not null,
	education varchar(20) not null,
	estimate int4 not null,
	credit varchar(10) not null,
	deps int4 not null
);
create table household (
	household_id int4 primary key,
	potential varchar(15) not null,
	deps int4 not null,
	cars int4 not null
);
create table person (
	person_id int8 not null,
	code char(12) not null,
	place_id int8 not null,
	profile_id int4 not null,
	household_id int4 not null,
	given varchar(20),
	family varchar(30),
	favored char(1),
	birth_month int4,
	birth_year int4,
	birth_country varchar(20),
	email varchar(50)
);
create table shop (
	shop_id int4 primary key,
	code char(8) not null,
	name varchar(30) not null,
	staff int4 not null,
	city varchar(30) not null,
	county varchar(30) not null,
	state char(2) not null,
	zip char(5) not null,
	gmt numeric(5,2) not null,
	market int4 not null
);
create table depot (
	depot_id int4 primary key,
	name varchar(20) not null,
	feet int4 not null,
	state char(2) not null
);
create table promo (
	promo_id int4 primary key,
	title varchar(20) not null,
	by_mail char(1) not null,
	by_event char(1) not null,
	by_tv char(1) not null
);
create table site (
	site_id int4 primary key,
	name varchar(20) not null,
	company varchar(20) not null
);
create table center (
	center_id int4 primary key,
	name varchar(20) not null,
	county varchar(30) not null
);
create table courier (
	courier_id int4 primary key,
	kind char(12) not null,
	carrier varchar(20) not null
);
create table reason (
	reason_id int4 primary key,
	what varchar(30) not null
);
create table shop_sale (
	ticket int8 not null,
	ware_id int8 not null,
	day_id int4,
	clock_id int4,
	person_id int8,
	profile_id int4,
	household_id int4,
	place_id int8,
	shop_id int4,
	promo_id int4,
	qty int4,
	cost numeric(7,2),
	list numeric(7,2),
	price numeric(7,2),
	coupon numeric(9,2),
	paid numeric(9,2),
	profit numeric(9,2)
);
create table shop_back (
	ticket int8 not null,
	ware_id int8 not null,
	day_id int4,
	person_id int8,
	shop_id int4,
	reason_id int4,
	qty int4,
	amount numeric(9,2),
	loss numeric(9,2)
);
create table post_sale (
	order_no int8 not null,
	ware_id int8 not null,
	day_id int4,
	ship_day_id int4,
	person_id int8,
	receiver_id int8,
	profile_id int4,
	household_id int4,
	place_id int8,
	center_id int4,
	courier_id int4,
	depot_id int4,
	promo_id int4,
	qty int4,
	cost numeric(7,2),
	list numeric(7,2),
	price numeric(7,2),
	coupon numeric(9,2),
	paid numeric(9,2),
	profit numeric(9,2),
	freight numeric(7,2)
);
create table post_back (
	order_no int8 not null,
	ware_id int8 not null,
	day_id int4,
	person_id int8,
	center_id int4,
	reason_id int4,
	qty int4,
	amount numeric(9,2),
	loss numeric(9,2)
);
create table net_sale (
	order_no int8 not null,
	ware_id int8 not null,
	day_id int4,
	ship_day_id int4,
	clock_id int4,
	person_id int8,
	household_id int4,
	place_id int8,
	site_id int4,
	courier_id int4,
	depot_id int4,
	promo_id int4,
	qty int4,
	cost numeric(7,2),
	list numeric(7,2),
	price numeric(7,2),
	coupon numeric(9,2),
	paid numeric(9,2),
	profit numeric(9,2),
	freight numeric(7,2)
);
create table net_back (
	order_no int8 not null,
	ware_id int8 not null,
	day_id int4,
	person_id int8,
	site_id int4,
	reason_id int4,
	qty int4,
	amount numeric(9,2),
	loss numeric(9,2)
);
create table shelf (
	day_id int4 not null,
	ware_id int8 not null,
	depot_id int4 not null,
	on_hand int4
);
create index on ware (ware_id);
create index on place (place_id);
create index on person (person_id);
create index on shop_sale (ticket, ware_id);
create index on shop_back (ticket, ware_id);
create index on post_sale (order_no, ware_id);
create index on post_back (order_no, ware_id);
create index on net_sale (order_no, ware_id);
create index on net_back (order_no, ware_id);
create index on shelf (ware_id, day_id);
