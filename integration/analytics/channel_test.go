package analytics

// sold is one line of a ticket or an order, in cents.
type sold struct {
	ware, qty                                int
	cost, list, price, coupon, paid, freight int
	back                                     bool
}

func (s sold) profit() int { return s.paid - s.cost*s.qty }

// money are the columns all channels have in this order.
func (s sold) money(d *dice) []string {
	return []string{
		d.maybe(50, num(s.qty)), d.maybe(50, cents(s.cost)), d.maybe(50, cents(s.list)), d.maybe(50, cents(s.price)),
		d.maybe(50, cents(s.coupon)), d.maybe(50, cents(s.paid)), d.maybe(50, cents(s.profit())),
	}
}

// deal is a ticket or an order: who, when and its lines.
type deal struct {
	dice                      *dice // what the channel adds comes from here
	day, person, place, promo int
	lines                     []sold
}

// deal makes the nth of a channel. More is sold towards the end of a year.
func (c channels) deal(channel string, n, most int) deal {
	d := roll(channel, n)
	day := d.between(0, days-1)
	if day%365 < 250 && d.oneIn(3) {
		day = day/365*365 + d.between(250, 364)
	}
	t := deal{dice: d, day: day, person: d.few(c.people), place: d.between(1, c.places), promo: d.between(1, promos)}
	ware := d.between(1, c.wares)
	for range d.between(1, most) {
		s := sold{ware: ware, qty: d.between(1, 100), list: listPrice(ware)}
		s.cost = s.list * d.between(40, 70) / 100
		s.price = s.list * d.between(30, 100) / 100
		s.paid = s.qty * s.price
		if d.oneIn(5) {
			s.coupon = s.paid * d.between(5, 50) / 100
			s.paid -= s.coupon
		}
		s.freight = d.between(100, 5000)
		s.back = d.oneIn(8)
		t.lines = append(t.lines, s)
		// Another ware each time: number and ware together are unique.
		ware = ware%c.wares + 1 + d.between(0, c.wares/10-1)
		if ware > c.wares {
			break
		}
	}
	return t
}

func dayID(n int) string { return num(firstDayID + n) }

func (c channels) shopSale(emit emit) {
	for i := 1; i <= c.tickets; i++ {
		t := c.deal("shop", i, 7)
		d := t.dice
		shop := d.few(shops)
		profile, household, clock := d.between(1, profiles), d.between(1, households), d.between(32, 83)
		for _, s := range t.lines {
			emit(append([]string{
				num(i), num(s.ware), d.maybe(40, dayID(t.day)), d.maybe(40, num(clock)), d.maybe(25, num(t.person)), d.maybe(40, num(profile)),
				d.maybe(40, num(household)), d.maybe(40, num(t.place)), d.maybe(40, num(shop)), d.maybe(4, num(t.promo)),
			}, s.money(d)...)...)
		}
	}
}

func (c channels) postSale(emit emit) {
	for i := 1; i <= c.posts; i++ {
		t := c.deal("post", i, 5)
		d := t.dice
		receiver, profile, household := d.few(c.people), d.between(1, profiles), d.between(1, households)
		center := d.between(1, centers)
		for _, s := range t.lines {
			row := append([]string{
				num(i), num(s.ware), d.maybe(40, dayID(t.day)), d.maybe(40, dayID(min(days-1, t.day+d.between(1, 120)))), d.maybe(25, num(t.person)),
				d.maybe(40, num(receiver)), d.maybe(40, num(profile)), d.maybe(40, num(household)), d.maybe(40, num(t.place)),
				d.maybe(40, num(center)), num(d.between(1, couriers)), d.maybe(40, num(d.between(1, depots))), d.maybe(4, num(t.promo)),
			}, s.money(d)...)
			emit(append(row, d.maybe(50, cents(s.freight)))...)
		}
	}
}

func (c channels) netSale(emit emit) {
	for i := 1; i <= c.nets; i++ {
		t := c.deal("net", i, 5)
		d := t.dice
		clock, household, site := d.between(0, quarters-1), d.between(1, households), d.between(1, sites)
		for _, s := range t.lines {
			row := append([]string{
				num(i), num(s.ware), d.maybe(40, dayID(t.day)), d.maybe(40, dayID(min(days-1, t.day+d.between(1, 120)))), d.maybe(40, num(clock)),
				d.maybe(25, num(t.person)), d.maybe(40, num(household)), d.maybe(40, num(t.place)), d.maybe(40, num(site)),
				num(d.between(1, couriers)), d.maybe(40, num(d.between(1, depots))), d.maybe(4, num(t.promo)),
			}, s.money(d)...)
			emit(append(row, d.maybe(50, cents(s.freight)))...)
		}
	}
}

// returns are the lines of a channel's deals that came back. The place is where:
// a shop, a center or a site.
func (c channels) returns(channel string, deals, most, places int, emit emit) {
	for i := 1; i <= deals; i++ {
		t := c.deal(channel, i, most)
		for _, s := range t.lines {
			if !s.back {
				continue
			}
			d := roll(channel+" back", i*1000003+s.ware)
			person := t.person
			if d.oneIn(10) {
				person = d.few(c.people)
			}
			qty := d.between(1, s.qty)
			amount := qty * s.price
			emit(num(i), num(s.ware), d.maybe(40, dayID(min(days-1, t.day+d.between(1, 90)))), d.maybe(25, num(person)),
				d.maybe(40, num(d.few(places))), d.maybe(40, num(d.between(1, reasons))), d.maybe(50, num(qty)), d.maybe(50, cents(amount)),
				d.maybe(50, cents(amount/10+d.between(50, 5000))))
		}
	}
}

func (c channels) shopBack(emit emit) { c.returns("shop", c.tickets, 7, shops, emit) }
func (c channels) postBack(emit emit) { c.returns("post", c.posts, 5, centers, emit) }
func (c channels) netBack(emit emit)  { c.returns("net", c.nets, 5, sites, emit) }

// shelf is what every depot had of every third ware, every other week.
func (c channels) shelf(emit emit) {
	for day := 0; day < days; day += 14 {
		for ware := 1; ware <= c.wares; ware += 3 {
			d := roll("shelf", day*100003+ware)
			for depot := 1; depot <= 2; depot++ {
				emit(dayID(day), num(ware), num((ware+depot)%depots+1), d.maybe(30, num(d.between(0, 900))))
			}
		}
	}
}
