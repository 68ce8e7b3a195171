-- Twenty-two questions of a wholesaler. A query begins with a line "-- name: what it asks".

-- w01: what was billed, by return flag and state of the line
select returned, state, sum(qty) as pieces, sum(amount) as gross, sum(amount * (1 - discount)) as net,
       sum(amount * (1 - discount) * (1 + tax)) as billed, avg(qty) as mean_qty, avg(amount) as mean_amount,
       avg(discount) as mean_discount, count(*) as lines
from line
where shipped <= date '2023-12-01' - interval '90 days'
group by returned, state
order by returned, state;

-- w02: who offers a brass good of a size cheapest within the north
select m.balance, m.maker_name, l.land_name, g.good_id, g.brand, m.street, m.phone
from good g, maker m, stock s, land l, area a
where g.good_id = s.good_id and m.maker_id = s.maker_id and g.size between 10 and 20 and g.kind like '%brass'
  and m.land_id = l.land_id and l.area_id = a.area_id and a.area_name = 'north'
  and s.cost = (select min(s2.cost)
                from stock s2, maker m2, land l2, area a2
                where g.good_id = s2.good_id and m2.maker_id = s2.maker_id and m2.land_id = l2.land_id
                  and l2.area_id = a2.area_id and a2.area_name = 'north')
order by m.balance desc, l.land_name, m.maker_name, g.good_id
limit 100;

-- w03: the ten open sales worth most to one segment
select l.sale_id, sum(l.amount * (1 - l.discount)) as worth, s.placed, s.urgency
from buyer b, sale s, line l
where b.segment = 'garages' and b.buyer_id = s.buyer_id and l.sale_id = s.sale_id
  and s.placed < date '2022-06-15' and l.shipped > date '2022-06-15'
group by l.sale_id, s.placed, s.urgency
order by worth desc, s.placed, l.sale_id
limit 10;

-- w04: sales of a quarter with a line that came late, by urgency
select urgency, count(*) as sales
from sale
where placed >= date '2022-04-01' and placed < date '2022-04-01' + interval '3 months'
  and exists (select * from line where line.sale_id = sale.sale_id and promised < received)
group by urgency
order by urgency;

-- w05: what buyers bought from makers of their own land
select d.land_name, sum(l.amount * (1 - l.discount)) as worth
from buyer b, sale s, line l, maker m, land d, area a
where b.buyer_id = s.buyer_id and l.sale_id = s.sale_id and l.maker_id = m.maker_id
  and b.land_id = m.land_id and m.land_id = d.land_id and d.area_id = a.area_id and a.area_name = 'south'
  and s.placed >= date '2022-01-01' and s.placed < date '2022-01-01' + interval '1 year'
group by d.land_name
order by worth desc, d.land_name;

-- w06: what no discount would have brought
select sum(amount * discount) as gain
from line
where shipped >= date '2022-01-01' and shipped < date '2022-01-01' + interval '1 year'
  and discount between 0.06 - 0.01 and 0.06 + 0.01 and qty < 24;

-- w07: trade between two lands, year by year
select from_land, to_land, year, sum(worth) as worth
from (select d1.land_name as from_land, d2.land_name as to_land, extract(year from l.shipped) as year,
             l.amount * (1 - l.discount) as worth
      from maker m, line l, sale s, buyer b, land d1, land d2
      where m.maker_id = l.maker_id and s.sale_id = l.sale_id and b.buyer_id = s.buyer_id
        and m.land_id = d1.land_id and b.land_id = d2.land_id
        and ((d1.land_name = 'Arvenia' and d2.land_name = 'Brosk') or (d1.land_name = 'Brosk' and d2.land_name = 'Arvenia'))
        and l.shipped between date '2021-01-01' and date '2023-12-31') as trade
group by from_land, to_land, year
order by from_land, to_land, year;

-- w08: the share of one land's makers in a market
select year, sum(case when land = 'Calder' then worth else 0 end) / sum(worth) as share
from (select extract(year from s.placed) as year, l.amount * (1 - l.discount) as worth, d2.land_name as land
      from good g, maker m, line l, sale s, buyer b, land d1, land d2, area a
      where g.good_id = l.good_id and m.maker_id = l.maker_id and l.sale_id = s.sale_id and s.buyer_id = b.buyer_id
        and b.land_id = d1.land_id and d1.area_id = a.area_id and a.area_name = 'east' and m.land_id = d2.land_id
        and s.placed between date '2021-01-01' and date '2022-12-31' and g.kind like 'painted%') as market
group by year
order by year;

-- w09: profit on green goods by land and year
select land, year, sum(profit) as profit
from (select d.land_name as land, extract(year from s.placed)::int4 as year,
             l.amount * (1 - l.discount) - k.cost * l.qty as profit
      from good g, maker m, line l, stock k, sale s, land d
      where m.maker_id = l.maker_id and k.maker_id = l.maker_id and k.good_id = l.good_id and g.good_id = l.good_id
        and s.sale_id = l.sale_id and m.land_id = d.land_id and g.title like '%green%') as p
group by land, year
order by land, year desc;

-- w10: the buyers who sent most back
select b.buyer_id, b.buyer_name, sum(l.amount * (1 - l.discount)) as lost, b.balance, d.land_name, b.street, b.phone, b.note
from buyer b, sale s, line l, land d
where b.buyer_id = s.buyer_id and l.sale_id = s.sale_id and s.placed >= date '2022-10-01'
  and s.placed < date '2022-10-01' + interval '3 months' and l.returned = 'R' and b.land_id = d.land_id
group by b.buyer_id, b.buyer_name, b.balance, b.phone, d.land_name, b.street, b.note
order by lost desc, b.buyer_id
limit 20;

-- w11: the stock that matters in one land
select s.good_id, sum(s.cost * s.on_hand) as value
from stock s, maker m, land d
where s.maker_id = m.maker_id and m.land_id = d.land_id and d.land_name in ('Arvenia', 'Calder', 'Dorn')
group by s.good_id
having sum(s.cost * s.on_hand) > (select sum(s.cost * s.on_hand) * 0.012
                                  from stock s, maker m, land d
                                  where s.maker_id = m.maker_id and m.land_id = d.land_id
                                    and d.land_name in ('Arvenia', 'Calder', 'Dorn'))
order by value desc, s.good_id;

-- w12: does a cheap carrier delay urgent sales
select l.carrier,
       sum(case when s.urgency = '1-now' or s.urgency = '2-soon' then 1 else 0 end) as urgent,
       sum(case when s.urgency <> '1-now' and s.urgency <> '2-soon' then 1 else 0 end) as other
from sale s, line l
where s.sale_id = l.sale_id and l.carrier in ('mail', 'ship') and l.promised < l.received and l.shipped < l.promised
  and l.received >= date '2022-01-01' and l.received < date '2022-01-01' + interval '1 year'
group by l.carrier
order by l.carrier;

-- w13: how many buyers made how many sales
select sales, count(*) as buyers
from (select b.buyer_id, count(s.sale_id)
      from buyer b left outer join sale s on b.buyer_id = s.buyer_id and s.note not like '%special%request%'
      group by b.buyer_id) as c (buyer_id, sales)
group by sales
order by buyers desc, sales desc;

-- w14: the part of a month's revenue that promoted goods brought
select 100.00 * sum(case when g.kind like 'polished%' then l.amount * (1 - l.discount) else 0 end)
       / sum(l.amount * (1 - l.discount)) as promoted
from line l, good g
where l.good_id = g.good_id and l.shipped >= date '2022-09-01' and l.shipped < date '2022-09-01' + interval '1 month';

-- w15: the maker that brought most in a quarter
with brought (maker_id, total) as (
	select maker_id, sum(amount * (1 - discount))
	from line
	where shipped >= date '2022-01-01' and shipped < date '2022-01-01' + interval '3 months'
	group by maker_id)
select m.maker_id, m.maker_name, m.street, m.phone, b.total
from maker m, brought b
where m.maker_id = b.maker_id and b.total = (select max(total) from brought)
order by m.maker_id;

-- w16: how many makers can supply a kind of good
select g.brand, g.kind, g.size, count(distinct s.maker_id) as makers
from stock s, good g
where g.good_id = s.good_id and g.brand <> 'brand-41' and g.kind not like 'polished forged%'
  and g.size in (3, 9, 14, 19, 23, 36, 45, 49)
  and s.maker_id not in (select maker_id from maker where note like '%buyer%complained%')
group by g.brand, g.kind, g.size
order by makers desc, g.brand, g.kind, g.size;

-- w17: what is lost if small lines are no longer taken
select sum(l.amount) / 7.0 as yearly
from line l, good g
where g.good_id = l.good_id and g.brand in ('brand-23', 'brand-11') and g.box like 'medium%'
  and l.qty < (select 0.5 * avg(l2.qty) from line l2 where l2.good_id = g.good_id);

-- w18: buyers with very large sales
select b.buyer_name, b.buyer_id, s.sale_id, s.placed, s.total, sum(l.qty) as pieces
from buyer b, sale s, line l
where s.sale_id in (select sale_id from line group by sale_id having sum(qty) > 240)
  and b.buyer_id = s.buyer_id and s.sale_id = l.sale_id
group by b.buyer_name, b.buyer_id, s.sale_id, s.placed, s.total
order by s.total desc, s.placed, s.sale_id
limit 100;

-- w19: revenue of three groups of goods, each with conditions of its own
select sum(l.amount * (1 - l.discount)) as revenue
from line l, good g
where (g.good_id = l.good_id and g.brand = 'brand-12' and g.box in ('small case', 'small sack', 'small crate')
       and l.qty between 1 and 31 and g.size between 1 and 25 and l.carrier in ('air', 'road') and l.instruct = 'in person')
   or (g.good_id = l.good_id and g.brand = 'brand-23' and g.box in ('medium drum', 'medium sack', 'medium case')
       and l.qty between 10 and 40 and g.size between 1 and 40 and l.carrier in ('air', 'road') and l.instruct = 'in person')
   or (g.good_id = l.good_id and g.brand = 'brand-34' and g.box in ('large case', 'large drum', 'large crate')
       and l.qty between 20 and 50 and g.size between 1 and 45 and l.carrier in ('air', 'road') and l.instruct = 'in person');

-- w20: makers with too much of a good in stock
select m.maker_name, m.street
from maker m, land d
where m.maker_id in (select s.maker_id
                     from stock s
                     where s.good_id in (select g.good_id from good g where g.title like 'd%')
                       and s.on_hand > (select 0.5 * sum(l.qty)
                                        from line l
                                        where l.good_id = s.good_id and l.maker_id = s.maker_id
                                          and l.shipped >= date '2022-01-01' and l.shipped < date '2022-01-01' + interval '1 year'))
  and m.land_id = d.land_id and d.land_name < 'H'
order by m.maker_name;

-- w21: makers who alone kept a sale waiting
select m.maker_name, count(*) as waits
from maker m, line l1, sale s, land d
where m.maker_id = l1.maker_id and s.sale_id = l1.sale_id and s.state = 'F' and l1.received > l1.promised
  and exists (select * from line l2 where l2.sale_id = l1.sale_id and l2.maker_id <> l1.maker_id)
  and not exists (select * from line l3 where l3.sale_id = l1.sale_id and l3.maker_id <> l1.maker_id and l3.received > l3.promised)
  and m.land_id = d.land_id and d.land_name in ('Dorn', 'Arvenia', 'Brosk', 'Calder')
group by m.maker_name
order by waits desc, m.maker_name
limit 100;

-- w22: buyers with money who have not bought, by country code
select code, count(*) as buyers, sum(balance) as money
from (select substring(phone from 1 for 2) as code, balance
      from buyer b
      where substring(phone from 1 for 2) in ('13', '31', '23', '29', '30', '18', '17')
        and balance > (select avg(balance) from buyer
                       where balance > 0.00 and substring(phone from 1 for 2) in ('13', '31', '23', '29', '30', '18', '17'))
        and not exists (select * from sale s where s.buyer_id = b.buyer_id)) as idle
group by code
order by code;
