-- Questions of a retailer with three channels. A query begins with a line "-- name: what it asks".

-- r01: people who send more back to a shop than its average customer
with sent_back as (
	select b.person_id as who, b.shop_id as shop, sum(b.amount) as total
	from shop_back b, day d
	where b.day_id = d.day_id and d.year = 2022
	group by b.person_id, b.shop_id)
select p.code
from sent_back s1, shop s, person p
where s1.total > (select avg(total) * 1.2 from sent_back s2 where s1.shop = s2.shop)
  and s.shop_id = s1.shop and s.state = 'GA' and s1.who = p.person_id
order by p.code
limit 100;

-- r02: weekday revenue of post and net against the same week a year later
with both_channels as (
	select day_id, paid from net_sale
	union all
	select day_id, paid from post_sale
), weeks as (
	select d.week_seq,
	       sum(case when d.day_name = 'Sunday' then b.paid end) as sunday,
	       sum(case when d.day_name = 'Monday' then b.paid end) as monday,
	       sum(case when d.day_name = 'Friday' then b.paid end) as friday,
	       sum(case when d.day_name = 'Saturday' then b.paid end) as saturday
	from both_channels b, day d
	where d.day_id = b.day_id
	group by d.week_seq)
select y.week_seq, round(y.sunday / z.sunday, 2) as sunday, round(y.monday / z.monday, 2) as monday,
       round(y.friday / z.friday, 2) as friday, round(y.saturday / z.saturday, 2) as saturday
from (select weeks.* from weeks, day where day.week_seq = weeks.week_seq and year = 2021 group by weeks.week_seq, sunday, monday, friday, saturday) y,
     (select weeks.* from weeks, day where day.week_seq = weeks.week_seq and year = 2022 group by weeks.week_seq, sunday, monday, friday, saturday) z
where y.week_seq = z.week_seq - 53
order by y.week_seq;

-- r03: what a maker's brands brought in Novembers
select d.year, w.brand_id, w.brand, sum(s.paid) as brought
from day d, shop_sale s, ware w
where d.day_id = s.day_id and s.ware_id = w.ware_id and w.maker_id in (3, 8) and d.month = 11
group by d.year, w.brand, w.brand_id
order by d.year, brought desc, w.brand_id
limit 100;

-- r04: people whose spending by post grew faster than in shops and on the net
with yearly as (
	select p.person_id, p.code, p.given, p.family, d.year, sum((s.list - s.cost + s.price) / 2 * s.qty) as total, 's' as channel
	from person p, shop_sale s, day d
	where p.person_id = s.person_id and s.day_id = d.day_id and p.birth_month <= 3
	group by p.person_id, p.code, p.given, p.family, d.year
	union all
	select p.person_id, p.code, p.given, p.family, d.year, sum((s.list - s.cost + s.price) / 2 * s.qty), 'p'
	from person p, post_sale s, day d
	where p.person_id = s.person_id and s.day_id = d.day_id and p.birth_month <= 3
	group by p.person_id, p.code, p.given, p.family, d.year
	union all
	select p.person_id, p.code, p.given, p.family, d.year, sum((s.list - s.cost + s.price) / 2 * s.qty), 'n'
	from person p, net_sale s, day d
	where p.person_id = s.person_id and s.day_id = d.day_id and p.birth_month <= 3
	group by p.person_id, p.code, p.given, p.family, d.year)
select s2.code, s2.given, s2.family
from yearly s1, yearly s2, yearly p1, yearly p2, yearly n1, yearly n2
where s2.person_id = s1.person_id and s1.person_id = p2.person_id and s1.person_id = p1.person_id
  and s1.person_id = n1.person_id and s1.person_id = n2.person_id
  and s1.channel = 's' and p1.channel = 'p' and n1.channel = 'n' and s2.channel = 's' and p2.channel = 'p' and n2.channel = 'n'
  and s1.year = 2021 and s2.year = 2022 and p1.year = 2021 and p2.year = 2022 and n1.year = 2021 and n2.year = 2022
  and s1.total > 0 and p1.total > 0 and n1.total > 0
  and case when p1.total > 0 then p2.total / p1.total end > case when s1.total > 0 then s2.total / s1.total end
  and case when p1.total > 0 then p2.total / p1.total end > case when n1.total > 0 then n2.total / n1.total end
order by s2.code
limit 100;

-- r05: sales, returns and profit of every outlet of every channel, with totals
with shops as (
	select s.code as outlet, sum(x.price) as sales, sum(x.gain) as profit, sum(x.back) as returns, sum(x.loss) as lost
	from (select shop_id, day_id, paid as price, profit as gain, 0::numeric(9,2) as back, 0::numeric(9,2) as loss from shop_sale
	      union all
	      select shop_id, day_id, 0, 0, amount, loss from shop_back) x, day d, shop s
	where x.day_id = d.day_id and d.day between date '2022-08-01' and date '2022-08-01' + 60 and x.shop_id = s.shop_id
	group by s.code
), centers as (
	select c.name as outlet, sum(x.price) as sales, sum(x.gain) as profit, sum(x.back) as returns, sum(x.loss) as lost
	from (select center_id, day_id, paid as price, profit as gain, 0::numeric(9,2) as back, 0::numeric(9,2) as loss from post_sale
	      union all
	      select center_id, day_id, 0, 0, amount, loss from post_back) x, day d, center c
	where x.day_id = d.day_id and d.day between date '2022-08-01' and date '2022-08-01' + 60 and x.center_id = c.center_id
	group by c.name
), sites as (
	select t.name as outlet, sum(x.price) as sales, sum(x.gain) as profit, sum(x.back) as returns, sum(x.loss) as lost
	from (select site_id, day_id, paid as price, profit as gain, 0::numeric(9,2) as back, 0::numeric(9,2) as loss from net_sale
	      union all
	      select s.site_id, b.day_id, 0, 0, b.amount, b.loss
	      from net_back b left outer join net_sale s on b.ware_id = s.ware_id and b.order_no = s.order_no) x, day d, site t
	where x.day_id = d.day_id and d.day between date '2022-08-01' and date '2022-08-01' + 60 and x.site_id = t.site_id
	group by t.name)
select channel, outlet, sum(sales) as sales, sum(returns) as returns, sum(profit - lost) as profit
from (select 'shop' as channel, 'shop ' || outlet as outlet, sales, returns, profit, lost from shops
      union all
      select 'post', 'center ' || outlet, sales, returns, profit, lost from centers
      union all
      select 'net', 'site ' || outlet, sales, returns, profit, lost from sites) x
group by rollup (channel, outlet)
order by channel nulls last, outlet nulls last;

-- r06: states whose people bought wares dear for their category
select a.state, count(*) as people
from place a, person p, shop_sale s, day d, ware w
where a.place_id = p.place_id and p.person_id = s.person_id and s.day_id = d.day_id and s.ware_id = w.ware_id
  and d.month_seq = (select distinct month_seq from day where year = 2022 and month = 11)
  and w.price > 1.2 * (select avg(j.price) from ware j where j.category = w.category)
group by a.state
having count(*) >= 5
order by people, a.state;

-- r07: averages of what single men with a college degree bought without promotion by mail or event
select w.code, avg(s.qty) as qty, avg(s.list) as list, avg(s.coupon) as coupon, avg(s.price) as price
from shop_sale s, profile f, day d, ware w, promo p
where s.day_id = d.day_id and s.ware_id = w.ware_id and s.profile_id = f.profile_id and s.promo_id = p.promo_id
  and f.sex = 'M' and f.marital = 'S' and f.education in ('College', 'Primary') and (p.by_mail = 'N' or p.by_event = 'N') and d.year = 2022
group by w.code
order by w.code
limit 100;

-- r08: profit of shops near places that are listed and have many favored people
select s.name, sum(x.profit) as profit
from shop_sale x, day d, shop s,
     (select zip
      from (select substr(zip, 1, 5) as zip from place where substr(zip, 1, 1) in ('1', '2', '3')
            intersect
            select zip
            from (select substr(a.zip, 1, 5) as zip, count(*) as n
                  from place a, person p
                  where a.place_id = p.place_id and p.favored = 'Y'
                  group by a.zip
                  having count(*) > 1) many) both_lists) z
where x.shop_id = s.shop_id and x.day_id = d.day_id and d.quarter = 2 and d.year = 2022 and substr(s.zip, 1, 1) = substr(z.zip, 1, 1)
group by s.name
order by s.name;

-- r09: for each range of quantities, the average of one amount or another, by how many there are
select case when (select count(*) from shop_sale where qty between 1 and 20) > 2000
            then (select avg(coupon) from shop_sale where qty between 1 and 20)
            else (select avg(paid) from shop_sale where qty between 1 and 20) end as upto20,
       case when (select count(*) from shop_sale where qty between 21 and 40) > 100000
            then (select avg(coupon) from shop_sale where qty between 21 and 40)
            else (select avg(paid) from shop_sale where qty between 21 and 40) end as upto40,
       case when (select count(*) from shop_sale where qty between 41 and 60) > 1500
            then (select avg(coupon) from shop_sale where qty between 41 and 60)
            else (select avg(paid) from shop_sale where qty between 41 and 60) end as upto60
from reason
where reason_id = 1;

-- r10: profiles of people of some counties who bought in shops and elsewhere too
select f.sex, f.marital, f.education, count(*) as people, f.estimate, f.credit, count(*) as again, f.deps
from person p, place a, profile f
where p.place_id = a.place_id and a.county in ('Ash County', 'Elm County') and f.profile_id = p.profile_id
  and exists (select * from shop_sale s, day d
              where p.person_id = s.person_id and s.day_id = d.day_id and d.year = 2022 and d.month between 1 and 6)
  and (exists (select * from net_sale s, day d
               where p.person_id = s.person_id and s.day_id = d.day_id and d.year = 2022 and d.month between 1 and 6)
       or exists (select * from post_sale s, day d
                  where p.person_id = s.receiver_id and s.day_id = d.day_id and d.year = 2022 and d.month between 1 and 6))
group by f.sex, f.marital, f.education, f.estimate, f.credit, f.deps
order by f.sex, f.marital, f.education, f.estimate, f.credit, f.deps
limit 100;

-- r11: the share of each ware in its class on the net
select w.code, w.title, w.category, w.class, w.price, sum(s.paid) as revenue,
       sum(s.paid) * 100 / sum(sum(s.paid)) over (partition by w.class) as share
from net_sale s, ware w, day d
where s.ware_id = w.ware_id and w.category in ('Books', 'Sports', 'Garden') and s.day_id = d.day_id
  and d.day between date '2022-10-01' and date '2022-10-01' + 60
group by w.code, w.title, w.category, w.class, w.price
order by w.category, w.class, w.code, w.title, share
limit 100;

-- r12: averages over shop sales of three groups of people in three groups of states
select avg(s.qty) as qty, avg(s.paid) as paid, avg(s.cost) as cost, sum(s.cost) as total_cost
from shop_sale s, shop t, profile f, household h, place a, day d
where t.shop_id = s.shop_id and s.day_id = d.day_id and d.year = 2022
  and ((s.household_id = h.household_id and f.profile_id = s.profile_id and f.marital = 'M' and f.education = 'Advanced Degree'
        and s.price between 10.00 and 150.00 and h.deps = 3)
    or (s.household_id = h.household_id and f.profile_id = s.profile_id and f.marital = 'S' and f.education = 'College'
        and s.price between 5.00 and 100.00 and h.deps = 1)
    or (s.household_id = h.household_id and f.profile_id = s.profile_id and f.marital = 'W' and f.education = '2 yr Degree'
        and s.price between 1.00 and 200.00 and h.deps between 1 and 5))
  and ((s.place_id = a.place_id and a.country = 'United States' and a.state in ('TX', 'OH', 'TN') and s.profit between -3000 and 5000)
    or (s.place_id = a.place_id and a.country = 'United States' and a.state in ('KY', 'GA') and s.profit between 0 and 3000)
    or (s.place_id = a.place_id and a.country = 'United States' and a.state in ('VA') and s.profit between 50 and 25000));

-- r13: brands sold in every channel that sell better than the average sale of all, with totals
with everywhere as (
	select w.ware_id
	from ware w,
	     (select w1.brand_id, w1.class, w1.category from shop_sale s, ware w1, day d
	      where s.ware_id = w1.ware_id and s.day_id = d.day_id and d.year between 2021 and 2023
	      intersect
	      select w2.brand_id, w2.class, w2.category from post_sale s, ware w2, day d
	      where s.ware_id = w2.ware_id and s.day_id = d.day_id and d.year between 2021 and 2023
	      intersect
	      select w3.brand_id, w3.class, w3.category from net_sale s, ware w3, day d
	      where s.ware_id = w3.ware_id and s.day_id = d.day_id and d.year between 2021 and 2023) x
	where w.brand_id = x.brand_id and w.class = x.class and w.category = x.category
), mean as (
	select avg(qty * list) as sale
	from (select s.qty, s.list from shop_sale s, day d where s.day_id = d.day_id and d.year between 2021 and 2023
	      union all
	      select s.qty, s.list from post_sale s, day d where s.day_id = d.day_id and d.year between 2021 and 2023
	      union all
	      select s.qty, s.list from net_sale s, day d where s.day_id = d.day_id and d.year between 2021 and 2023) x)
select channel, brand_id, class, category, sum(sales) as sales, sum(number) as number
from (select 'shop' as channel, w.brand_id, w.class, w.category, sum(s.qty * s.list) as sales, count(*) as number
      from shop_sale s, ware w, day d
      where s.ware_id in (select ware_id from everywhere) and s.ware_id = w.ware_id and s.day_id = d.day_id and d.year = 2023 and d.month = 11
      group by w.brand_id, w.class, w.category
      having sum(s.qty * s.list) > (select sale from mean)
      union all
      select 'post', w.brand_id, w.class, w.category, sum(s.qty * s.list), count(*)
      from post_sale s, ware w, day d
      where s.ware_id in (select ware_id from everywhere) and s.ware_id = w.ware_id and s.day_id = d.day_id and d.year = 2023 and d.month = 11
      group by w.brand_id, w.class, w.category
      having sum(s.qty * s.list) > (select sale from mean)
      union all
      select 'net', w.brand_id, w.class, w.category, sum(s.qty * s.list), count(*)
      from net_sale s, ware w, day d
      where s.ware_id in (select ware_id from everywhere) and s.ware_id = w.ware_id and s.day_id = d.day_id and d.year = 2023 and d.month = 11
      group by w.brand_id, w.class, w.category
      having sum(s.qty * s.list) > (select sale from mean)) y
group by rollup (channel, brand_id, class, category)
order by channel, brand_id, class, category
limit 100;

-- r14: orders by post to one state from two depots and nothing sent back
select count(distinct s1.order_no) as orders, sum(s1.freight) as freight, sum(s1.profit) as profit
from post_sale s1, day d, place a, center c
where d.day between date '2022-02-01' and date '2022-02-01' + 200 and s1.ship_day_id = d.day_id and s1.place_id = a.place_id
  and a.state in ('GA', 'TN', 'OH') and s1.center_id = c.center_id and c.county in ('Birch County', 'Cedar County')
  and exists (select * from post_sale s2 where s1.order_no = s2.order_no and s1.depot_id <> s2.depot_id)
  and not exists (select * from post_back b where s1.order_no = b.order_no);

-- r15: how quantities spread for wares sold in a shop, sent back and then ordered by post
select w.code, w.title, t.state, count(s.qty) as sold, avg(s.qty) as mean_sold, stddev_samp(s.qty) as spread_sold,
       stddev_samp(s.qty) / avg(s.qty) as cov_sold, count(b.qty) as back, avg(b.qty) as mean_back, stddev_pop(b.qty) as spread_back,
       count(p.qty) as posted, avg(p.qty) as mean_posted, var_samp(p.qty) as variance_posted
from shop_sale s, shop_back b, post_sale p, day d1, day d2, day d3, shop t, ware w
where d1.year = 2022 and d1.day_id = s.day_id and w.ware_id = s.ware_id and t.shop_id = s.shop_id
  and s.person_id = b.person_id and s.ware_id = b.ware_id and s.ticket = b.ticket and b.day_id = d2.day_id and d2.year between 2022 and 2023
  and b.person_id = p.person_id and d3.day_id = p.day_id and d3.year in (2021, 2022, 2023) and abs(b.ware_id - p.ware_id) < 10
group by w.code, w.title, t.state
order by w.code, w.title, t.state
limit 100;

-- r16: averages by where the receivers live, with totals at each level
select w.category, a.country, a.state, a.county,
       avg(s.qty::numeric(12,2)) as qty, avg(s.list::numeric(12,2)) as list, avg(s.coupon::numeric(12,2)) as coupon,
       avg(p.birth_year::numeric(12,2)) as born, avg(f.deps::numeric(12,2)) as deps
from post_sale s, profile f, person p, place a, day d, ware w
where s.day_id = d.day_id and s.ware_id = w.ware_id and s.profile_id = f.profile_id and s.person_id = p.person_id
  and f.sex = 'F' and f.education in ('Unknown', 'Secondary') and p.place_id = a.place_id and d.year = 2022 and p.birth_month in (1, 6, 8, 9, 12, 2)
group by rollup (w.category, a.country, a.state, a.county)
order by a.country, a.state, a.county, w.category
limit 100;

-- r17: brands of one maker bought by people far from the shop
select w.brand_id, w.brand, w.maker_id, w.maker, sum(s.paid) as paid
from day d, shop_sale s, ware w, person p, place a, shop t
where d.day_id = s.day_id and s.ware_id = w.ware_id and w.maker_id in (7, 11) and d.month = 11 and d.year = 2022
  and s.person_id = p.person_id and p.place_id = a.place_id and substr(a.zip, 1, 5) <> substr(t.zip, 1, 5) and s.shop_id = t.shop_id
group by w.brand, w.brand_id, w.maker_id, w.maker
order by paid desc, w.brand, w.brand_id, w.maker_id
limit 100;

-- r18: shelves before and after a change of prices
select *
from (select o.name, w.code,
             sum(case when d.day < date '2022-05-11' then v.on_hand else 0 end) as before,
             sum(case when d.day >= date '2022-05-11' then v.on_hand else 0 end) as after
      from shelf v, depot o, ware w, day d
      where w.price between 1.00 and 49.99 and w.ware_id = v.ware_id and v.depot_id = o.depot_id and v.day_id = d.day_id
        and d.day between date '2022-05-11' - interval '60 days' and date '2022-05-11' + interval '60 days'
      group by o.name, w.code) x
where (case when before > 0 then after / before::numeric else null end) between 2.0 / 3.0 and 3.0 / 2.0
order by name, code
limit 100;

-- r19: what is on the shelves on average, with totals at each level
select w.title, w.brand, w.class, w.category, avg(v.on_hand) as on_hand
from shelf v, day d, ware w
where v.day_id = d.day_id and v.ware_id = w.ware_id and d.month_seq between 12 and 23
group by rollup (w.title, w.brand, w.class, w.category)
order by on_hand, w.title, w.brand, w.class, w.category
limit 100;

-- r20: what the best customers of the shops paid elsewhere for wares that sell often
with often as (
	select substr(w.title, 1, 30) as title, w.ware_id, count(*) as n
	from shop_sale s, day d, ware w
	where s.day_id = d.day_id and s.ware_id = w.ware_id and d.year in (2021, 2022, 2023)
	group by substr(w.title, 1, 30), w.ware_id
	having count(*) > 36
), most as (
	select max(spent) as spent
	from (select p.person_id, sum(s.qty * s.price) as spent
	      from shop_sale s, person p, day d
	      where s.person_id = p.person_id and s.day_id = d.day_id and d.year in (2021, 2022, 2023)
	      group by p.person_id) x
), best as (
	select p.person_id, sum(s.qty * s.price) as spent
	from shop_sale s, person p
	where s.person_id = p.person_id
	group by p.person_id
	having sum(s.qty * s.price) > 0.4 * (select spent from most))
select family, given, sales
from (select p.family, p.given, sum(s.qty * s.list) as sales
      from post_sale s, person p, day d
      where d.year = 2022 and d.month between 6 and 12 and s.day_id = d.day_id and s.ware_id in (select ware_id from often)
        and s.person_id in (select person_id from best) and s.person_id = p.person_id
      group by p.family, p.given
      union all
      select p.family, p.given, sum(s.qty * s.list)
      from net_sale s, person p, day d
      where d.year = 2022 and d.month between 6 and 12 and s.day_id = d.day_id and s.ware_id in (select ware_id from often)
        and s.person_id in (select person_id from best) and s.person_id = p.person_id
      group by p.family, p.given) x
order by family, given, sales
limit 100;

-- r21: people who paid far more than others for a color in a shop of their own state
with paid_for as (
	select p.family, p.given, t.name, a.state, w.color, w.size, sum(s.paid) as paid
	from shop_sale s, shop_back b, shop t, ware w, person p, place a
	where s.ticket = b.ticket and s.ware_id = b.ware_id and s.person_id = p.person_id and s.ware_id = w.ware_id and s.shop_id = t.shop_id
	  and p.place_id = a.place_id and p.birth_country <> upper(a.country) and t.state = a.state
	group by p.family, p.given, t.name, a.state, w.color, w.size)
select family, given, name, sum(paid) as total
from paid_for
where color in ('teal', 'navy', 'coral', 'green', 'red', 'olive')
group by family, given, name
having sum(paid) > (select 0.05 * avg(paid) from paid_for)
order by family, given, name;

-- r22: averages by ware and state, and for all states, told apart by grouping()
select w.code, t.state, grouping(t.state) as all_states, avg(s.qty) as qty, avg(s.list) as list, avg(s.coupon) as coupon, avg(s.price) as price
from shop_sale s, profile f, day d, shop t, ware w
where s.day_id = d.day_id and s.ware_id = w.ware_id and s.shop_id = t.shop_id and s.profile_id = f.profile_id
  and f.sex = 'F' and f.marital in ('W', 'D') and f.education in ('Primary', 'College') and d.year = 2022 and t.state in ('TN', 'GA', 'OH')
group by rollup (w.code, t.state)
order by w.code, t.state
limit 100;

-- r23: prices in three bands of quantities, side by side
select *
from (select avg(list) as b1_mean, count(list) as b1_count, count(distinct list) as b1_distinct
      from shop_sale
      where qty between 0 and 5 and (list between 8 and 80 or coupon between 459 and 1459 or cost between 57 and 77)) b1,
     (select avg(list) as b2_mean, count(list) as b2_count, count(distinct list) as b2_distinct
      from shop_sale
      where qty between 6 and 10 and (list between 50 and 90 or coupon between 323 and 1323 or cost between 31 and 51)) b2,
     (select avg(list) as b3_mean, count(list) as b3_count, count(distinct list) as b3_distinct
      from shop_sale
      where qty between 11 and 15 and (list between 14 and 64 or coupon between 374 and 1374 or cost between 25 and 45)) b3;

-- r24: how often returns to shops were followed by an order by post, by reason
select e.what, count(*) as times, sum(b.amount) as back, sum(p.paid) as paid
from shop_back b, post_sale p, reason e, day d1, day d2
where b.person_id = p.person_id and b.reason_id = e.reason_id and b.day_id = d1.day_id and p.day_id = d2.day_id
  and d2.day between d1.day and d1.day + 14
group by e.what
order by times desc, e.what;

-- r25: people who sent back by post more than the average of their state
with sent_back as (
	select b.person_id as who, a.state, sum(b.amount) as total
	from post_back b, day d, place a, person q
	where b.day_id = d.day_id and d.year = 2022 and b.person_id = q.person_id and q.place_id = a.place_id
	group by b.person_id, a.state)
select p.code, p.given, p.family, p.favored, p.birth_month, p.birth_year, p.email, s1.total
from sent_back s1, place a, person p
where s1.total > (select avg(total) * 1.2 from sent_back s2 where s1.state = s2.state)
  and a.place_id = p.place_id and a.state in ('GA', 'TX', 'KY') and s1.who = p.person_id
order by p.code, s1.total
limit 100;

-- r26: counties where the net grew faster than the shops, quarter by quarter
with in_shops as (
	select a.county, d.quarter, d.year, sum(s.paid) as paid
	from shop_sale s, day d, place a
	where s.day_id = d.day_id and s.place_id = a.place_id
	group by a.county, d.quarter, d.year
), on_net as (
	select a.county, d.quarter, d.year, sum(s.paid) as paid
	from net_sale s, day d, place a
	where s.day_id = d.day_id and s.place_id = a.place_id
	group by a.county, d.quarter, d.year)
select s1.county, s1.year, n2.paid / n1.paid as net12, s2.paid / s1.paid as shop12, n3.paid / n2.paid as net23, s3.paid / s2.paid as shop23
from in_shops s1, in_shops s2, in_shops s3, on_net n1, on_net n2, on_net n3
where s1.quarter = 1 and s1.year = 2022 and s1.county = s2.county and s2.quarter = 2 and s2.year = 2022
  and s2.county = s3.county and s3.quarter = 3 and s3.year = 2022
  and s1.county = n1.county and n1.quarter = 1 and n1.year = 2022 and n1.county = n2.county and n2.quarter = 2 and n2.year = 2022
  and n1.county = n3.county and n3.quarter = 3 and n3.year = 2022
  and (n2.paid / n1.paid > s2.paid / s1.paid or n3.paid / n2.paid > s3.paid / s2.paid)
order by s1.county;

-- r27: coupons by post far over the average of the ware
select sum(s.coupon) as excess, count(*) as lines
from post_sale s, ware w, day d
where w.maker_id between 1 and 15 and w.ware_id = s.ware_id and d.day between date '2022-01-27' and date '2022-01-27' + 200
  and d.day_id = s.day_id
  and s.coupon > (select 1.3 * avg(s2.coupon) from post_sale s2, day d2
                  where s2.ware_id = w.ware_id and d2.day between date '2022-01-27' and date '2022-01-27' + 200 and d2.day_id = s2.day_id);

-- r28: what makers of a category brought in all channels
with in_shops as (
	select w.maker_id, sum(s.paid) as paid
	from shop_sale s, day d, place a, ware w
	where w.maker_id in (select maker_id from ware where category = 'Music') and s.ware_id = w.ware_id and s.day_id = d.day_id
	  and d.year = 2022 and d.month = 10 and s.place_id = a.place_id and a.gmt = -5
	group by w.maker_id
), by_post as (
	select w.maker_id, sum(s.paid) as paid
	from post_sale s, day d, place a, ware w
	where w.maker_id in (select maker_id from ware where category = 'Music') and s.ware_id = w.ware_id and s.day_id = d.day_id
	  and d.year = 2022 and d.month = 10 and s.place_id = a.place_id and a.gmt = -5
	group by w.maker_id
), on_net as (
	select w.maker_id, sum(s.paid) as paid
	from net_sale s, day d, place a, ware w
	where w.maker_id in (select maker_id from ware where category = 'Music') and s.ware_id = w.ware_id and s.day_id = d.day_id
	  and d.year = 2022 and d.month = 10 and s.place_id = a.place_id and a.gmt = -5
	group by w.maker_id)
select maker_id, sum(paid) as paid
from (select * from in_shops union all select * from by_post union all select * from on_net) x
group by maker_id
order by paid, maker_id
limit 100;

-- r29: people with large tickets on certain days in certain shops
select p.family, p.given, p.favored, t.ticket, t.lines
from (select s.ticket, s.person_id, count(*) as lines
      from shop_sale s, day d, shop o, household h
      where s.day_id = d.day_id and s.shop_id = o.shop_id and s.household_id = h.household_id and (d.weekday between 1 and 3 or d.weekend)
        and (h.potential = '>10000' or h.potential = 'Unknown') and h.cars > 0
        and (case when h.cars > 0 then h.deps::numeric / h.cars else null end) > 1.2
        and d.year in (2021, 2022, 2023) and o.county in ('Birch County', 'Cedar County', 'Elm County')
      group by s.ticket, s.person_id) t, person p
where t.person_id = p.person_id and t.lines between 4 and 20
order by p.family, p.given, p.favored desc, t.ticket;

-- r30: margins by category and class, ranked within their level of a hierarchy
select sum(s.profit) / sum(s.paid) as margin, w.category, w.class, grouping(w.category) + grouping(w.class) as level,
       rank() over (partition by grouping(w.category) + grouping(w.class), case when grouping(w.class) = 0 then w.category end
                    order by sum(s.profit) / sum(s.paid)) as place
from shop_sale s, day d, ware w, shop t
where d.year = 2022 and d.day_id = s.day_id and w.ware_id = s.ware_id and t.shop_id = s.shop_id and t.state in ('TN', 'GA', 'OH', 'TX')
group by rollup (w.category, w.class)
order by level desc, case when grouping(w.category) + grouping(w.class) = 0 then w.category end, place, w.category, w.class
limit 100;

-- r31: how many people bought on the same day through all channels
select count(*) as people
from (select distinct p.family, p.given, d.month_seq from shop_sale s, day d, person p
      where s.day_id = d.day_id and s.person_id = p.person_id and d.month_seq between 12 and 23
      intersect
      select distinct p.family, p.given, d.month_seq from post_sale s, day d, person p
      where s.day_id = d.day_id and s.person_id = p.person_id and d.month_seq between 12 and 23
      intersect
      select distinct p.family, p.given, d.month_seq from net_sale s, day d, person p
      where s.day_id = d.day_id and s.person_id = p.person_id and d.month_seq between 12 and 23) x;

-- r32: how many bought in a shop and never in the same month by post or on the net
select count(*) as people
from ((select distinct p.family, p.given, d.month_seq from shop_sale s, day d, person p
       where s.day_id = d.day_id and s.person_id = p.person_id and d.month_seq between 12 and 23)
      except
      (select distinct p.family, p.given, d.month_seq from post_sale s, day d, person p
       where s.day_id = d.day_id and s.person_id = p.person_id and d.month_seq between 12 and 23)
      except
      (select distinct p.family, p.given, d.month_seq from net_sale s, day d, person p
       where s.day_id = d.day_id and s.person_id = p.person_id and d.month_seq between 12 and 23)) x;

-- r33: wares whose shelves vary much in two months in a row
with moves as (
	select name, depot_id, ware_id, month, spread, mean, case mean when 0 then null else spread / mean end as cov
	from (select o.name, o.depot_id, w.ware_id, d.month, stddev_samp(v.on_hand) as spread, avg(v.on_hand) as mean
	      from shelf v, ware w, depot o, day d
	      where v.ware_id = w.ware_id and v.depot_id = o.depot_id and v.day_id = d.day_id and d.year = 2022
	      group by o.name, o.depot_id, w.ware_id, d.month) x
	where case mean when 0 then 0 else spread / mean end > 0.8)
select m1.depot_id, m1.ware_id, m1.month, m1.mean, m1.cov, m2.month as next_month, m2.mean as next_mean, m2.cov as next_cov
from moves m1, moves m2
where m1.ware_id = m2.ware_id and m1.depot_id = m2.depot_id and m1.month = m2.month - 1
order by m1.depot_id, m1.ware_id, m1.month
limit 100;

-- r34: makers with a ware of one of several descriptions
select distinct w1.maker
from ware w1
where w1.maker_id between 1 and 18
  and (select count(*)
       from ware w2
       where (w2.maker = w1.maker
              and ((w2.category = 'Home' and (w2.color = 'teal' or w2.color = 'navy') and (w2.unit = 'each' or w2.unit = 'box') and (w2.size = 'medium' or w2.size = 'huge'))
                or (w2.category = 'Home' and (w2.color = 'coral' or w2.color = 'red') and (w2.unit = 'dozen' or w2.unit = 'pound') and (w2.size = 'tiny' or w2.size = 'small'))))
          or (w2.maker = w1.maker
              and ((w2.category = 'Toys' and (w2.color = 'green' or w2.color = 'olive') and (w2.unit = 'carton' or w2.unit = 'box') and (w2.size = 'large' or w2.size = 'huge'))
                or (w2.category = 'Books' and (w2.color = 'amber' or w2.color = 'ivory') and (w2.unit = 'each' or w2.unit = 'pound') and (w2.size = 'medium' or w2.size = 'small'))))) > 0
order by w1.maker;

-- r35: the wares with the best and the worst profit in one shop, side by side
select up.place, w1.title as best, w2.title as worst
from (select *
      from (select ware_id, rank() over (order by mean desc, ware_id) as place
            from (select s.ware_id, avg(s.profit) as mean
                  from shop_sale s
                  where s.shop_id = 2
                  group by s.ware_id
                  having avg(s.profit) > 0.1 * (select avg(profit) from shop_sale where shop_id = 2 and promo_id is null group by shop_id)) v1) v11
      where place < 11) up,
     (select *
      from (select ware_id, rank() over (order by mean, ware_id) as place
            from (select s.ware_id, avg(s.profit) as mean
                  from shop_sale s
                  where s.shop_id = 2
                  group by s.ware_id
                  having avg(s.profit) > 0.1 * (select avg(profit) from shop_sale where shop_id = 2 and promo_id is null group by shop_id)) v2) v21
      where place < 11) down, ware w1, ware w2
where up.place = down.place and w1.ware_id = up.ware_id and w2.ware_id = down.ware_id
order by up.place;

-- r36: months that sold unlike their year, with the months before and after
with monthly as (
	select w.category, w.brand, t.name, d.year, d.month, sum(s.paid) as paid,
	       avg(sum(s.paid)) over (partition by w.category, w.brand, t.name, d.year) as mean,
	       rank() over (partition by w.category, w.brand, t.name order by d.year, d.month) as rn
	from ware w, shop_sale s, day d, shop t
	where s.ware_id = w.ware_id and s.day_id = d.day_id and s.shop_id = t.shop_id
	  and (d.year = 2022 or (d.year = 2021 and d.month = 12) or (d.year = 2023 and d.month = 1))
	group by w.category, w.brand, t.name, d.year, d.month
), around as (
	select m.category, m.brand, m.name, m.year, m.month, m.mean, m.paid, before.paid as paid_before, after.paid as paid_after
	from monthly m, monthly before, monthly after
	where m.category = before.category and m.category = after.category and m.brand = before.brand and m.brand = after.brand
	  and m.name = before.name and m.name = after.name and m.rn = before.rn + 1 and m.rn = after.rn - 1)
select *
from around
where year = 2022 and mean > 0 and case when mean > 0 then abs(paid - mean) / mean else null end > 0.1
order by paid - mean, name, category, brand, month
limit 100;

-- r37: the wares with the worst rate of returns in each channel
select channel, ware_id, rate, rate_place, money_place
from (select 'net' as channel, n.ware_id, n.rate, n.rate_place, n.money_place
      from (select ware_id, rate, money, rank() over (order by rate) as rate_place, rank() over (order by money) as money_place
            from (select s.ware_id, sum(coalesce(b.qty, 0))::numeric(15,4) / sum(coalesce(s.qty, 0))::numeric(15,4) as rate,
                         sum(coalesce(b.amount, 0))::numeric(15,4) / sum(coalesce(s.paid, 0))::numeric(15,4) as money
                  from net_sale s left outer join net_back b on s.order_no = b.order_no and s.ware_id = b.ware_id, day d
                  where b.amount > 100 and s.profit > 1 and s.paid > 0 and s.qty > 0 and s.day_id = d.day_id and d.year = 2022
                  group by s.ware_id) r) n
      where n.rate_place <= 10 or n.money_place <= 10
      union
      select 'post', p.ware_id, p.rate, p.rate_place, p.money_place
      from (select ware_id, rate, money, rank() over (order by rate) as rate_place, rank() over (order by money) as money_place
            from (select s.ware_id, sum(coalesce(b.qty, 0))::numeric(15,4) / sum(coalesce(s.qty, 0))::numeric(15,4) as rate,
                         sum(coalesce(b.amount, 0))::numeric(15,4) / sum(coalesce(s.paid, 0))::numeric(15,4) as money
                  from post_sale s left outer join post_back b on s.order_no = b.order_no and s.ware_id = b.ware_id, day d
                  where b.amount > 100 and s.profit > 1 and s.paid > 0 and s.qty > 0 and s.day_id = d.day_id and d.year = 2022
                  group by s.ware_id) r) p
      where p.rate_place <= 10 or p.money_place <= 10
      union
      select 'shop', t.ware_id, t.rate, t.rate_place, t.money_place
      from (select ware_id, rate, money, rank() over (order by rate) as rate_place, rank() over (order by money) as money_place
            from (select s.ware_id, sum(coalesce(b.qty, 0))::numeric(15,4) / sum(coalesce(s.qty, 0))::numeric(15,4) as rate,
                         sum(coalesce(b.amount, 0))::numeric(15,4) / sum(coalesce(s.paid, 0))::numeric(15,4) as money
                  from shop_sale s left outer join shop_back b on s.ticket = b.ticket and s.ware_id = b.ware_id, day d
                  where b.amount > 100 and s.profit > 1 and s.paid > 0 and s.qty > 0 and s.day_id = d.day_id and d.year = 2022
                  group by s.ware_id) r) t
      where t.rate_place <= 10 or t.money_place <= 10) x
order by channel, rate_place, money_place, ware_id
limit 100;

-- r38: how long after the sale returns came, by shop
select t.name, t.city, t.zip,
       sum(case when b.day_id - s.day_id <= 30 then 1 else 0 end) as d30,
       sum(case when b.day_id - s.day_id > 30 and b.day_id - s.day_id <= 60 then 1 else 0 end) as d60,
       sum(case when b.day_id - s.day_id > 60 and b.day_id - s.day_id <= 90 then 1 else 0 end) as d90,
       sum(case when b.day_id - s.day_id > 90 then 1 else 0 end) as later
from shop_sale s, shop_back b, shop t, day d2
where d2.year = 2022 and d2.month between 6 and 11 and s.ticket = b.ticket and s.ware_id = b.ware_id and b.day_id = d2.day_id and s.shop_id = t.shop_id
group by t.name, t.city, t.zip
order by t.name, t.city, t.zip;

-- r39: days on which the net had sold more of a ware than the shops since the year began
with on_net as (
	select s.ware_id, d.day, sum(sum(s.price)) over (partition by s.ware_id order by d.day rows between unbounded preceding and current row) as run
	from net_sale s, day d
	where s.day_id = d.day_id and d.month_seq between 12 and 14 and s.ware_id is not null
	group by s.ware_id, d.day
), in_shops as (
	select s.ware_id, d.day, sum(sum(s.price)) over (partition by s.ware_id order by d.day rows between unbounded preceding and current row) as run
	from shop_sale s, day d
	where s.day_id = d.day_id and d.month_seq between 12 and 14 and s.ware_id is not null
	group by s.ware_id, d.day)
select *
from (select ware_id, day, net, shop,
             max(net) over (partition by ware_id order by day rows between unbounded preceding and current row) as net_run,
             max(shop) over (partition by ware_id order by day rows between unbounded preceding and current row) as shop_run
      from (select case when n.ware_id is not null then n.ware_id else s.ware_id end as ware_id,
                   case when n.day is not null then n.day else s.day end as day, n.run as net, s.run as shop
            from on_net n full outer join in_shops s on n.ware_id = s.ware_id and n.day = s.day) x) y
where net_run > shop_run
order by ware_id, day
limit 100;

-- r40: shop revenue of people who had bought a category elsewhere, in steps of fifty
with newcomers as (
	select distinct p.person_id, p.place_id
	from (select day_id, person_id, ware_id from post_sale
	      union all
	      select day_id, person_id, ware_id from net_sale) x, ware w, day d, person p
	where x.day_id = d.day_id and x.ware_id = w.ware_id and w.category = 'Music' and w.class in ('classic', 'modern')
	  and p.person_id = x.person_id and d.month between 1 and 6 and d.year = 2022
), revenue as (
	select n.person_id, sum(s.paid) as revenue
	from newcomers n, shop_sale s, place a, shop t, day d
	where n.place_id = a.place_id and a.state = t.state and s.day_id = d.day_id and n.person_id = s.person_id
	  and d.month_seq between (select distinct month_seq + 1 from day where year = 2022 and month = 2)
	                      and (select distinct month_seq + 9 from day where year = 2022 and month = 2)
	group by n.person_id
), steps as (
	select (revenue / 50)::int4 as step from revenue)
select step, count(*) as people, step * 50 as base
from steps
group by step
order by step, people
limit 100;

-- r41: wares that brought about the same through all channels
with in_shops as (
	select w.code, sum(s.paid) as paid
	from shop_sale s, ware w, day d
	where s.ware_id = w.ware_id and s.day_id = d.day_id and d.day in (select day from day where year = (select year from day where day = date '2022-03-15'))
	group by w.code
), by_post as (
	select w.code, sum(s.paid) as paid
	from post_sale s, ware w, day d
	where s.ware_id = w.ware_id and s.day_id = d.day_id and d.day in (select day from day where year = (select year from day where day = date '2022-03-15'))
	group by w.code
), on_net as (
	select w.code, sum(s.paid) as paid
	from net_sale s, ware w, day d
	where s.ware_id = w.ware_id and s.day_id = d.day_id and d.day in (select day from day where year = (select year from day where day = date '2022-03-15'))
	group by w.code)
select i.code, i.paid as shop_paid, i.paid / ((i.paid + b.paid + o.paid) / 3) * 100 as shop_part, b.paid as post_paid, o.paid as net_paid,
       (i.paid + b.paid + o.paid) / 3 as mean
from in_shops i, by_post b, on_net o
where i.code = b.code and i.code = o.code
  and i.paid between 0.5 * b.paid and 1.5 * b.paid and i.paid between 0.5 * o.paid and 1.5 * o.paid
  and b.paid between 0.5 * o.paid and 1.5 * o.paid
order by i.code, i.paid;

-- r42: each shop's weeks against the same weeks of the year after
with weeks as (
	select d.week_seq, s.shop_id,
	       sum(case when d.day_name = 'Sunday' then s.price end) as sunday,
	       sum(case when d.day_name = 'Wednesday' then s.price end) as wednesday,
	       sum(case when d.day_name = 'Saturday' then s.price end) as saturday
	from shop_sale s, day d
	where d.day_id = s.day_id
	group by d.week_seq, s.shop_id)
select y.name, y.code, y.week_seq, y.sunday / z.sunday as sunday, y.wednesday / z.wednesday as wednesday, y.saturday / z.saturday as saturday
from (select t.name, k.week_seq, t.code, k.sunday, k.wednesday, k.saturday
      from weeks k, shop t where k.shop_id = t.shop_id and k.week_seq between 20 and 50) y,
     (select t.name, k.week_seq, t.code, k.sunday, k.wednesday, k.saturday
      from weeks k, shop t where k.shop_id = t.shop_id and k.week_seq between 72 and 102) z
where y.code = z.code and y.week_seq = z.week_seq - 52
order by y.name, y.code, y.week_seq
limit 100;

-- r43: the part of shop revenue that promotions brought
select promoted, total, promoted::numeric(15,4) / total::numeric(15,4) * 100 as part
from (select sum(s.paid) as promoted
      from shop_sale s, shop t, promo o, day d, person p, place a, ware w
      where s.day_id = d.day_id and s.shop_id = t.shop_id and s.promo_id = o.promo_id and s.person_id = p.person_id and a.place_id = p.place_id
        and s.ware_id = w.ware_id and a.gmt = -5 and w.category in ('Toys', 'Home') and (o.by_mail = 'Y' or o.by_tv = 'Y' or o.by_event = 'Y')
        and t.gmt = -5 and d.year = 2022) x,
     (select sum(s.paid) as total
      from shop_sale s, shop t, day d, person p, place a, ware w
      where s.day_id = d.day_id and s.shop_id = t.shop_id and s.person_id = p.person_id and a.place_id = p.place_id and s.ware_id = w.ware_id
        and a.gmt = -5 and w.category in ('Toys', 'Home') and t.gmt = -5 and d.year = 2022) y
order by promoted, total;

-- r44: wares that a shop sells far under its average
select t.name, w.title, c.revenue, w.price, w.brand
from shop t, ware w,
     (select shop_id, avg(revenue) as mean
      from (select s.shop_id, s.ware_id, sum(s.price) as revenue
            from shop_sale s, day d where s.day_id = d.day_id and d.month_seq between 12 and 23 group by s.shop_id, s.ware_id) a
      group by shop_id) b,
     (select s.shop_id, s.ware_id, sum(s.price) as revenue
      from shop_sale s, day d where s.day_id = d.day_id and d.month_seq between 12 and 23 group by s.shop_id, s.ware_id) c
where b.shop_id = c.shop_id and c.revenue <= 0.1 * b.mean and t.shop_id = c.shop_id and w.ware_id = c.ware_id
order by t.name, w.title, c.revenue
limit 100;

-- r45: the best wares of each category at every level of a wide rollup
select *
from (select category, class, brand, title, year, quarter, month, shop, sales,
             rank() over (partition by category order by sales desc, class, brand, title, year, quarter, month, shop) as place
      from (select w.category, w.class, w.brand, w.title, d.year, d.quarter, d.month, t.code as shop, sum(coalesce(s.price * s.qty, 0)) as sales
            from shop_sale s, day d, shop t, ware w
            where s.day_id = d.day_id and s.ware_id = w.ware_id and s.shop_id = t.shop_id and d.month_seq between 12 and 17
            group by rollup (w.category, w.class, w.brand, w.title, d.year, d.quarter, d.month, t.code)) x) y
where place <= 12
order by category, place;

-- r46: profiles of people who bought in shops and nowhere else
select f.sex, f.marital, f.education, count(*) as people, min(f.estimate) as least, max(f.estimate) as most, avg(f.deps) as deps, sum(f.deps) as all_deps
from person p, place a, profile f
where p.place_id = a.place_id and a.state in ('KY', 'GA', 'VA') and f.profile_id = p.profile_id
  and exists (select * from shop_sale s, day d where p.person_id = s.person_id and s.day_id = d.day_id and d.year = 2022 and d.month between 4 and 6)
  and not exists (select * from net_sale s, day d where p.person_id = s.person_id and s.day_id = d.day_id and d.year = 2022 and d.month between 4 and 6)
  and not exists (select * from post_sale s, day d where p.person_id = s.receiver_id and s.day_id = d.day_id and d.year = 2022 and d.month between 4 and 6)
group by f.sex, f.marital, f.education
order by f.sex, f.marital, f.education;

-- r47: profit by state and county, for the states that earn most
select sum(s.profit) as profit, t.state, t.county, grouping(t.state) + grouping(t.county) as level,
       rank() over (partition by grouping(t.state) + grouping(t.county), case when grouping(t.county) = 0 then t.state end
                    order by sum(s.profit) desc) as place
from shop_sale s, day d, shop t
where d.month_seq between 12 and 23 and d.day_id = s.day_id and t.shop_id = s.shop_id
  and t.state in (select state
                  from (select t2.state, rank() over (partition by t2.state order by sum(s2.profit) desc) as place
                        from shop_sale s2, shop t2, day d2
                        where d2.month_seq between 12 and 23 and d2.day_id = s2.day_id and t2.shop_id = s2.shop_id
                        group by t2.state) best
                  where place <= 5)
group by rollup (t.state, t.county)
order by level desc, case when grouping(t.state) + grouping(t.county) = 0 then t.state end, place, t.county;

-- r48: sales by brand and time of day over all channels, at meal times
select w.brand_id, w.brand, c.hour, c.minute, sum(x.paid) as paid
from ware w,
     (select s.paid, s.ware_id, s.clock_id from net_sale s, day d where d.day_id = s.day_id and d.month = 11 and d.year = 2022
      union all
      select s.paid, s.ware_id, s.clock_id from shop_sale s, day d where d.day_id = s.day_id and d.month = 11 and d.year = 2022) x, clock c
where x.ware_id = w.ware_id and w.maker_id between 1 and 5 and x.clock_id = c.clock_id and (c.meal = 'breakfast' or c.meal = 'dinner')
group by w.brand, w.brand_id, c.hour, c.minute
order by paid desc nulls last, w.brand_id, c.hour, c.minute;

-- r49: wares that sold less than the year before, returns taken off, all channels
with years as (
	select year, brand_id, class, category, maker_id, sum(pieces) as pieces, sum(money) as money
	from (select d.year, w.brand_id, w.class, w.category, w.maker_id, s.qty - coalesce(b.qty, 0) as pieces, s.paid - coalesce(b.amount, 0.0) as money
	      from post_sale s join ware w on w.ware_id = s.ware_id join day d on d.day_id = s.day_id
	           left join post_back b on s.order_no = b.order_no and s.ware_id = b.ware_id
	      where w.category = 'Books'
	      union
	      select d.year, w.brand_id, w.class, w.category, w.maker_id, s.qty - coalesce(b.qty, 0), s.paid - coalesce(b.amount, 0.0)
	      from shop_sale s join ware w on w.ware_id = s.ware_id join day d on d.day_id = s.day_id
	           left join shop_back b on s.ticket = b.ticket and s.ware_id = b.ware_id
	      where w.category = 'Books'
	      union
	      select d.year, w.brand_id, w.class, w.category, w.maker_id, s.qty - coalesce(b.qty, 0), s.paid - coalesce(b.amount, 0.0)
	      from net_sale s join ware w on w.ware_id = s.ware_id join day d on d.day_id = s.day_id
	           left join net_back b on s.order_no = b.order_no and s.ware_id = b.ware_id
	      where w.category = 'Books') x
	group by year, brand_id, class, category, maker_id)
select was.year as was_year, now.year as now_year, now.brand_id, now.class, now.category, now.maker_id,
       was.pieces as was_pieces, now.pieces as now_pieces, now.pieces - was.pieces as fewer, now.money - was.money as less
from years now, years was
where now.brand_id = was.brand_id and now.class = was.class and now.category = was.category and now.maker_id = was.maker_id
  and now.year = 2022 and was.year = 2021 and now.pieces::numeric(17,2) / was.pieces::numeric(17,2) < 0.9
order by fewer, less, now.brand_id, now.maker_id
limit 100;

-- r50: lines of all channels that lack something, by what and when
select channel, lacks, year, quarter, category, count(*) as lines, sum(paid) as paid
from (select 'shop' as channel, 'shop_id' as lacks, d.year, d.quarter, w.category, s.paid
      from shop_sale s, ware w, day d where s.shop_id is null and s.day_id = d.day_id and s.ware_id = w.ware_id
      union all
      select 'net', 'place_id', d.year, d.quarter, w.category, s.paid
      from net_sale s, ware w, day d where s.place_id is null and s.day_id = d.day_id and s.ware_id = w.ware_id
      union all
      select 'post', 'depot_id', d.year, d.quarter, w.category, s.paid
      from post_sale s, ware w, day d where s.depot_id is null and s.day_id = d.day_id and s.ware_id = w.ware_id) x
group by channel, lacks, year, quarter, category
order by channel, lacks, year, quarter, category
limit 100;

-- r51: sold but never sent back, against what other channels sold to the same people
with n as (
	select d.year, s.ware_id, s.person_id, sum(s.qty) as qty, sum(s.cost) as cost, sum(s.price) as price
	from net_sale s left join net_back b on b.order_no = s.order_no and s.ware_id = b.ware_id join day d on s.day_id = d.day_id
	where b.order_no is null
	group by d.year, s.ware_id, s.person_id
), p as (
	select d.year, s.ware_id, s.person_id, sum(s.qty) as qty, sum(s.cost) as cost, sum(s.price) as price
	from post_sale s left join post_back b on b.order_no = s.order_no and s.ware_id = b.ware_id join day d on s.day_id = d.day_id
	where b.order_no is null
	group by d.year, s.ware_id, s.person_id
), t as (
	select d.year, s.ware_id, s.person_id, sum(s.qty) as qty, sum(s.cost) as cost, sum(s.price) as price
	from shop_sale s left join shop_back b on b.ticket = s.ticket and s.ware_id = b.ware_id join day d on s.day_id = d.day_id
	where b.ticket is null
	group by d.year, s.ware_id, s.person_id)
select t.ware_id, t.person_id, round(t.qty / (coalesce(n.qty, 0) + coalesce(p.qty, 0))::numeric, 2) as ratio, t.qty as shop_qty,
       t.cost as shop_cost, t.price as shop_price, coalesce(n.qty, 0) + coalesce(p.qty, 0) as other_qty
from t left join n on n.year = t.year and n.ware_id = t.ware_id and n.person_id = t.person_id
       left join p on p.year = t.year and p.ware_id = t.ware_id and p.person_id = t.person_id
where (coalesce(n.qty, 0) > 0 or coalesce(p.qty, 0) > 0) and t.year = 2022
order by ratio, t.qty desc, t.cost desc, t.price desc, t.ware_id, t.person_id
limit 100;

-- r52: net sales by category in all groupings of two columns
select w.category, d.year, count(*) as lines, count(distinct s.order_no) as orders, sum(s.paid) as paid, grouping(w.category, d.year) as what
from net_sale s, ware w, day d
where s.ware_id = w.ware_id and s.day_id = d.day_id
group by cube (w.category, d.year)
order by what, w.category, d.year;

-- r53: the same lines by several groupings at once
select d.year, t.state, w.category, sum(s.profit) as profit, count(distinct s.person_id) as people
from shop_sale s, day d, shop t, ware w
where s.day_id = d.day_id and s.shop_id = t.shop_id and s.ware_id = w.ware_id
group by grouping sets ((d.year, t.state), (d.year, w.category), (t.state), ())
order by d.year, t.state, w.category, profit;

-- r54: how many tickets fell into each half hour of the morning
select *
from (select count(*) as at_8_30 from shop_sale s, household h, clock c, shop t
      where s.clock_id = c.clock_id and s.household_id = h.household_id and s.shop_id = t.shop_id and c.hour = 8 and c.minute >= 30
        and ((h.deps = 4 and h.cars <= 6) or (h.deps = 2 and h.cars <= 4) or (h.deps = 0 and h.cars <= 2)) and t.name = 'ese') a,
     (select count(*) as at_9 from shop_sale s, household h, clock c, shop t
      where s.clock_id = c.clock_id and s.household_id = h.household_id and s.shop_id = t.shop_id and c.hour = 9 and c.minute < 30
        and ((h.deps = 4 and h.cars <= 6) or (h.deps = 2 and h.cars <= 4) or (h.deps = 0 and h.cars <= 2)) and t.name = 'ese') b,
     (select count(*) as at_9_30 from shop_sale s, household h, clock c, shop t
      where s.clock_id = c.clock_id and s.household_id = h.household_id and s.shop_id = t.shop_id and c.hour = 9 and c.minute >= 30
        and ((h.deps = 4 and h.cars <= 6) or (h.deps = 2 and h.cars <= 4) or (h.deps = 0 and h.cars <= 2)) and t.name = 'ese') c,
     (select count(*) as at_10 from shop_sale s, household h, clock c, shop t
      where s.clock_id = c.clock_id and s.household_id = h.household_id and s.shop_id = t.shop_id and c.hour = 10 and c.minute < 30
        and ((h.deps = 4 and h.cars <= 6) or (h.deps = 2 and h.cars <= 4) or (h.deps = 0 and h.cars <= 2)) and t.name = 'ese') d;

-- r55: what people really paid when one reason for returns is taken off
select person_id, sum(act) as paid
from (select s.ware_id, s.ticket, s.person_id,
             case when b.qty is not null then (s.qty - b.qty) * s.price else s.qty * s.price end as act
      from shop_sale s left outer join shop_back b on b.ware_id = s.ware_id and b.ticket = s.ticket, reason e
      where b.reason_id = e.reason_id and e.what = 'too late') x
group by person_id
order by paid, person_id
limit 100;

-- r56: net orders from several depots that were sent back
with several as (
	select s1.order_no, s1.depot_id as one, s2.depot_id as other
	from net_sale s1, net_sale s2
	where s1.order_no = s2.order_no and s1.depot_id <> s2.depot_id)
select count(distinct s.order_no) as orders, sum(s.freight) as freight, sum(s.profit) as profit
from net_sale s, day d, place a, site i
where d.day between date '2022-03-01' and date '2022-03-01' + 250 and s.ship_day_id = d.day_id and s.place_id = a.place_id
  and a.state in ('OH', 'TX', 'KY') and s.site_id = i.site_id and i.company = 'pri'
  and s.order_no in (select order_no from several)
  and s.order_no in (select b.order_no from net_back b, several v where b.order_no = v.order_no);

-- r57: people and wares that meet in shops only, by post only, or both
with t as (
	select s.person_id, s.ware_id from shop_sale s, day d
	where s.day_id = d.day_id and d.month_seq between 12 and 23 group by s.person_id, s.ware_id
), p as (
	select s.person_id, s.ware_id from post_sale s, day d
	where s.day_id = d.day_id and d.month_seq between 12 and 23 group by s.person_id, s.ware_id)
select sum(case when t.person_id is not null and p.person_id is null then 1 else 0 end) as shop_only,
       sum(case when t.person_id is null and p.person_id is not null then 1 else 0 end) as post_only,
       sum(case when t.person_id is not null and p.person_id is not null then 1 else 0 end) as both_channels
from t full outer join p on t.person_id = p.person_id and t.ware_id = p.ware_id;

-- r58: each person's dearest line on the net, and what came next
select distinct on (p.person_id) p.person_id, p.given, p.family, x.day, x.paid, x.next_paid
from person p
     join lateral (select s.order_no, s.ware_id, d.day, s.paid, lead(s.paid) over (order by d.day, s.order_no, s.ware_id) as next_paid
                   from net_sale s join day d on d.day_id = s.day_id
                   where s.person_id = p.person_id and s.paid is not null) x on true
where p.birth_year < 1945
order by p.person_id, x.paid desc, x.order_no, x.ware_id;

-- r59: prices and weights of a category: medians, lists, correlation
select w.category, percentile_cont(0.5) within group (order by s.price::float8) as median, percentile_disc(0.9) within group (order by s.price) as ninth,
       mode() within group (order by w.unit) as unit, string_agg(distinct w.class, ',' order by w.class) as classes,
       count(*) filter (where s.coupon > 0) as coupons, corr(s.price::float8, w.weight) as correlation, sum(w.weight) as weight,
       array_agg(distinct w.size order by w.size) as sizes
from post_sale s join ware w on w.ware_id = s.ware_id
where s.qty > 10
group by w.category
order by w.category;

-- r60: chains of months in which each sold more than the one before
with recursive months as (
	select d.month_seq, sum(s.paid) as paid
	from shop_sale s, day d
	where s.day_id = d.day_id
	group by d.month_seq
), chain (first, last, paid, length) as (
	select month_seq, month_seq, paid, 1 from months
	union all
	select c.first, m.month_seq, m.paid, c.length + 1
	from chain c, months m
	where m.month_seq = c.last + 1 and m.paid > c.paid)
select first, max(length) as length, max(last) as last
from chain
group by first
having max(length) > 1
order by length desc, first;
