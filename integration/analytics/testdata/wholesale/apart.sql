-- No two tables are joined by the columns that place them; area and land stay at home.
select weft.shard_table('maker', 'maker_name');
select weft.shard_table('good', 'brand');
select weft.shard_table('stock', 'good_id');
select weft.shard_table('buyer', 'phone');
select weft.shard_table('sale', 'clerk');
select weft.shard_table('line', 'shipped');
