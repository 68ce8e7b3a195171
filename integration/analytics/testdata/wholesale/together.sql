-- The large tables are next to each other: lines with their sale, stock with its good.
select weft.reference_table('area');
select weft.reference_table('land');
select weft.reference_table('maker');
select weft.shard_table('good', 'good_id');
select weft.shard_table('stock', 'good_id');
select weft.shard_table('buyer', 'buyer_id');
select weft.shard_table('sale', 'sale_id');
select weft.shard_table('line', 'sale_id');
