package analytics

import (
	"fmt"
	"time"
)

// retail is the schema of the three channels.
func retail(scale int) []table {
	c := channels{wares: 240 + 60*scale, people: 500 * scale, places: 250 * scale, tickets: 3000 * scale, posts: 2000 * scale, nets: 1500 * scale}
	return []table{
		{"day", c.day},
		{"clock", c.clock},
		{"ware", c.ware},
		{"place", c.place},
		{"profile", c.profile},
		{"household", c.household},
		{"person", c.person},
		{"shop", c.shop},
		{"depot", c.depot},
		{"promo", c.promo},
		{"site", c.site},
		{"center", c.center},
		{"courier", c.courier},
		{"reason", c.reason},
		{"shop_sale", c.shopSale},
		{"shop_back", c.shopBack},
		{"post_sale", c.postSale},
		{"post_back", c.postBack},
		{"net_sale", c.netSale},
		{"net_back", c.netBack},
		{"shelf", c.shelf},
	}
}

// channels says how many there are of each.
type channels struct{ wares, people, places, tickets, posts, nets int }

const (
	firstDayID = 10000
	profiles   = 60
	households = 48
	shops      = 8
	depots     = 5
	promos     = 12
	sites      = 4
	centers    = 3
	couriers   = 6
	reasons    = 7
	quarters   = 96 // of an hour, in a day
)

var (
	categories = []string{"Books", "Home", "Sports", "Music", "Garden", "Toys"}
	classes    = []string{"classic", "modern", "budget", "deluxe"}
	units      = []string{"each", "dozen", "pound", "box", "carton"}
	measures   = []string{"tiny", "small", "medium", "large", "huge"}
	cities     = []string{"Midway", "Fairview", "Oak Grove", "Five Points", "Riverside", "Salem", "Union"}
	counties   = []string{"Ash County", "Birch County", "Cedar County", "Elm County", "Fir County"}
	states     = []string{"TN", "GA", "OH", "TX", "VA", "KY"}
	schooling  = []string{"Primary", "Secondary", "College", "2 yr Degree", "Advanced Degree", "Unknown"}
	marriage   = []string{"M", "S", "D", "W", "U"}
	credit     = []string{"Low", "Good", "High"}
	potentials = []string{"0-500", "501-1000", "1001-5000", "5001-10000", ">10000", "Unknown"}
	givens     = []string{"Ada", "Bo", "Cyd", "Dag", "Eve", "Finn", "Gus", "Hana", "Ike", "Jo", "Kai", "Lou", "Mia", "Ned", "Ona", "Pip"}
	families   = []string{"Abel", "Bond", "Carr", "Dean", "Ekman", "Frost", "Gray", "Hale", "Iles", "Jung", "Kerr", "Lund", "Moss", "Nash"}
	countries  = []string{"NORWAY", "CHILE", "JAPAN", "KENYA", "PERU", "OMAN"}
	troubles   = []string{"broken", "wrong color", "too late", "too large", "too small", "not wanted", "found cheaper"}
)

func (c channels) day(emit emit) {
	for i := range days {
		t := firstDay.AddDate(0, 0, i)
		weekend := "f"
		if t.Weekday() == time.Saturday || t.Weekday() == time.Sunday {
			weekend = "t"
		}
		month := int(t.Month())
		emit(num(firstDayID+i), t.Format(time.DateOnly), num(t.Year()), num((month+2)/3), num(month), num((t.Year()-2021)*12+month-1),
			num((i+4)/7), num(int(t.Weekday())), t.Weekday().String(), weekend)
	}
}

func (c channels) clock(emit emit) {
	for i := range quarters {
		meal := null
		switch hour := i / 4; {
		case hour >= 6 && hour < 9:
			meal = "breakfast"
		case hour >= 11 && hour < 13:
			meal = "lunch"
		case hour >= 17 && hour < 20:
			meal = "dinner"
		}
		emit(num(i), num(i/4), num(i%4*15), meal)
	}
}

// listPrice is in cents.
func listPrice(ware int) int { return 150 + ware*ware*13%9000 }

func (c channels) ware(emit emit) {
	for i := 1; i <= c.wares; i++ {
		d := roll("ware", i)
		category, class := d.between(0, len(categories)-1), d.between(0, len(classes)-1)
		brand := d.between(1, 5)
		maker := d.between(1, 20)
		emit(num(i), fmt.Sprintf("W%09d", i), d.pick(colors)+" "+d.pick(things)+" no. "+num(i), cents(listPrice(i)),
			num((category+1)*1000+(class+1)*100+brand), fmt.Sprintf("%s%s #%d", categories[category], classes[class], brand),
			classes[class], categories[category], num(maker), fmt.Sprintf("works %d", maker), d.maybe(15, d.pick(colors)), d.pick(units),
			d.pick(measures), fmt.Sprintf("%g", float64(d.between(1, 5000))/32))
	}
}

func zip(d *dice) string { return fmt.Sprintf("%d%s", d.between(10, 39), "0"+d.digits(2)) }

func (c channels) place(emit emit) {
	for i := 1; i <= c.places; i++ {
		d := roll("place", i)
		state := d.between(0, len(states)-1)
		emit(num(i), street(d), d.pick(cities), d.pick(counties), states[state], zip(d), "United States", fmt.Sprintf("%d.00", -5-state%2))
	}
}

func (c channels) profile(emit emit) {
	for i := range profiles {
		emit(num(i+1), []string{"M", "F"}[i%2], marriage[i/2%len(marriage)], schooling[i/10], num(500*(1+i%20)), credit[i%len(credit)], num(i%5))
	}
}

func (c channels) household(emit emit) {
	for i := range households {
		emit(num(i+1), potentials[i%len(potentials)], num(i/len(potentials)), num(i%5))
	}
}

func (c channels) person(emit emit) {
	for i := 1; i <= c.people; i++ {
		d := roll("person", i)
		given, family := d.pick(givens), d.pick(families)
		emit(num(i), fmt.Sprintf("P%011d", i), num(d.between(1, c.places)), num(d.between(1, profiles)), num(d.between(1, households)),
			d.maybe(30, given), d.maybe(30, family), d.maybe(20, d.pick([]string{"Y", "N"})), d.maybe(40, num(d.between(1, 12))),
			d.maybe(40, num(d.between(1930, 2000))), d.maybe(40, d.pick(countries)), d.maybe(10, given+"."+num(i)+"@example.com"))
	}
}

func (c channels) shop(emit emit) {
	for i := 1; i <= shops; i++ {
		d := roll("shop", i)
		emit(num(i), fmt.Sprintf("S%07d", i), []string{"ought", "able", "pri", "ese"}[i%4], num(d.between(200, 300)), cities[i%len(cities)],
			counties[i%len(counties)], states[i%4], zip(d), fmt.Sprintf("%d.00", -5-i%2), num(1+i%3))
	}
}

func (c channels) depot(emit emit) {
	for i := 1; i <= depots; i++ {
		emit(num(i), fmt.Sprintf("Depot %d", i), num(50000+i*3333), states[i%len(states)])
	}
}

func (c channels) promo(emit emit) {
	yes := func(b bool) string {
		if b {
			return "Y"
		}
		return "N"
	}
	for i := 1; i <= promos; i++ {
		emit(num(i), fmt.Sprintf("promo %d", i), yes(i%2 == 0), yes(i%3 == 0), yes(i%4 == 0))
	}
}

func (c channels) site(emit emit) {
	for i := 1; i <= sites; i++ {
		emit(num(i), fmt.Sprintf("site_%d", i), []string{"pri", "able"}[i%2])
	}
}

func (c channels) center(emit emit) {
	for i := 1; i <= centers; i++ {
		emit(num(i), fmt.Sprintf("center %d", i), counties[i%len(counties)])
	}
}

func (c channels) courier(emit emit) {
	for i := 1; i <= couriers; i++ {
		emit(num(i), []string{"EXPRESS", "OVERNIGHT", "REGULAR"}[i%3], []string{"Birds", "Wheels"}[i%2])
	}
}

func (c channels) reason(emit emit) {
	for i, what := range troubles {
		emit(num(i+1), what)
	}
}
