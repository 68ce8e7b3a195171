-- No two tables are joined by the columns that place them; day, profile, shop and other small tables stay at home.
select weft.reference_table('household');
select weft.reference_table('promo');
select weft.shard_table('ware', 'code');
select weft.shard_table('place', 'zip');
select weft.shard_table('person', 'code');
select weft.shard_table('shelf', 'day_id');
select weft.shard_table('shop_sale', 'person_id');
select weft.shard_table('shop_back', 'ticket');
select weft.shard_table('post_sale', 'ware_id');
select weft.shard_table('post_back', 'amount');
select weft.shard_table('net_sale', 'place_id');
select weft.shard_table('net_back', 'order_no');
