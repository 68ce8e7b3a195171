package analytics

import (
	"fmt"
)

// wholesale is the schema of parts, makers and sales.
func wholesale(scale int) []table {
	w := parts{makers: 40 + 2*scale, goods: 400 * scale, buyers: 300 * scale, sales: 3000 * scale}
	return []table{
		{"area", w.areas},
		{"land", w.lands},
		{"maker", w.makersRows},
		{"good", w.goodsRows},
		{"stock", w.stock},
		{"buyer", w.buyersRows},
		{"sale", w.salesRows},
		{"line", w.lines},
	}
}

// parts says how many there are of each.
type parts struct{ makers, goods, buyers, sales int }

var (
	areaNames = []string{"north", "east", "south", "west", "islands"}
	landNames = []string{
		"Arvenia", "Brosk", "Calder", "Dorn", "Elvar", "Fenmark", "Gostra", "Harrow", "Istria Minor", "Jutska", "Korlan",
		"Lumen", "Marrow", "Norring", "Ostfal", "Perrin", "Quill", "Rastov", "Selby", "Torvald", "Umber", "Vesk", "Wend", "Yarrow", "Zelle",
	}
	coats    = []string{"painted", "polished", "coated", "raw", "brushed", "plain"}
	makings  = []string{"cast", "forged", "milled", "drawn", "pressed"}
	metals   = []string{"steel", "brass", "tin", "copper", "zinc"}
	colors   = []string{"green", "dark", "amber", "blue", "dusty", "coral", "ivory", "lemon", "red", "slate", "teal", "white", "dim", "navy", "olive"}
	things   = []string{"bolt", "hinge", "valve", "flange", "gear", "spring", "bracket", "clamp", "pulley", "washer"}
	sizes    = []string{"small", "medium", "large", "jumbo"}
	boxes    = []string{"case", "sack", "crate", "drum", "tube"}
	segments = []string{"garages", "builders", "farms", "yards", "homes"}
	urgency  = []string{"1-now", "2-soon", "3-normal", "4-any", "5-none"}
	carriers = []string{"air", "road", "rail", "mail", "ship", "courier", "pickup"}
	orders   = []string{"in person", "leave it", "return it", "cash first"}
	streets  = []string{"Mill Lane", "Quay", "High Street", "Old Road", "Station Square", "Canal Side", "Long Acre"}
)

func (w parts) areas(emit emit) {
	for i, name := range areaNames {
		emit(num(i+1), name)
	}
}

func (w parts) lands(emit emit) {
	for i, name := range landNames {
		emit(num(i+1), name, num(i%len(areaNames)+1))
	}
}

func street(d *dice) string { return num(d.between(1, 200)) + " " + d.pick(streets) }

// phone begins with a code that goes with the land.
func phone(d *dice, land int) string {
	return fmt.Sprintf("%d-%s-%s", land+10, d.digits(3), d.digits(4))
}

func (w parts) makersRows(emit emit) {
	for i := 1; i <= w.makers; i++ {
		d := roll("maker", i)
		land := d.between(1, len(landNames))
		if i%3 == 0 {
			land = d.between(1, 4) // a few lands make much
		}
		note := "keeps its word"
		if d.oneIn(12) {
			note = "a buyer once complained"
		}
		emit(num(i), fmt.Sprintf("Maker %06d", i), street(d), num(land), phone(d, land), cents(d.between(-99999, 999999)), note)
	}
}

func price(good int) int { return 90000/100 + good*37%20000 + good%7*100 }

func (w parts) goodsRows(emit emit) {
	for i := 1; i <= w.goods; i++ {
		d := roll("good", i)
		emit(num(i), d.pick(colors)+" "+d.pick(colors)+" "+d.pick(things), fmt.Sprintf("brand-%d%d", d.between(1, 4), d.between(1, 4)),
			d.pick(coats)+" "+d.pick(makings)+" "+d.pick(metals), num(d.between(1, 50)), d.pick(sizes)+" "+d.pick(boxes),
			cents(price(i)), fmt.Sprintf("%g", float64(d.between(1, 90000))/64))
	}
}

// offerers is how many makers have each good.
const offerers = 4

// makerOf is the nth maker that has a good.
func (w parts) makerOf(good, n int) int { return (good+n*(w.makers/offerers+1))%w.makers + 1 }

func (w parts) stock(emit emit) {
	for good := 1; good <= w.goods; good++ {
		for n := range offerers {
			d := roll("stock", good*offerers+n)
			emit(num(good), num(w.makerOf(good, n)), num(d.between(1, 400)), cents(price(good)*d.between(30, 80)/100))
		}
	}
}

func (w parts) buyersRows(emit emit) {
	for i := 1; i <= w.buyers; i++ {
		d := roll("buyer", i)
		land := d.between(1, len(landNames))
		if i%3 == 0 {
			land = d.between(1, 4)
		}
		emit(num(i), fmt.Sprintf("Buyer %06d", i), street(d), num(land), phone(d, land), cents(d.between(-99999, 999999)),
			d.pick(segments), d.maybe(5, "since "+dateOf(d.between(0, days))))
	}
}

// buyerOf is who made a sale; one in three makes none.
func (w parts) buyerOf(d *dice) int {
	for {
		if b := d.few(w.buyers); b%3 != 1 {
			return b
		}
	}
}

// orderLine is what sale and line must agree on.
type orderLine struct {
	good, maker, qty, amount, discount, tax int
	shipped, promised, received             int
	returned, state, instruction, carrier   string
}

func (w parts) sale(i int) (placed int, lines []orderLine) {
	d := roll("sale", i)
	placed = d.between(0, days-121)
	for range d.between(1, 7) {
		l := orderLine{good: d.between(1, w.goods), qty: d.between(1, 50), discount: d.between(0, 10), tax: d.between(0, 8)}
		l.maker = w.makerOf(l.good, d.between(0, offerers-1))
		l.amount = l.qty * price(l.good)
		l.shipped = placed + d.between(1, 121)
		l.promised = placed + d.between(30, 90)
		l.received = l.shipped + d.between(1, 30)
		l.returned, l.state = "N", "O"
		if l.received <= lastClosed {
			l.returned, l.state = d.pick([]string{"R", "A", "A"}), "F"
		}
		l.instruction, l.carrier = d.pick(orders), d.pick(carriers)
		lines = append(lines, l)
	}
	return placed, lines
}

// lastClosed is the day after which nothing has been received yet.
const lastClosed = 900

func (w parts) salesRows(emit emit) {
	for i := 1; i <= w.sales; i++ {
		placed, lines := w.sale(i)
		total, open := 0, 0
		for _, l := range lines {
			total += l.amount * (100 - l.discount) * (100 + l.tax) / 10000
			if l.state == "O" {
				open++
			}
		}
		state := "P"
		switch open {
		case 0:
			state = "F"
		case len(lines):
			state = "O"
		}
		d := roll("sale head", i)
		note := "as always"
		if d.oneIn(20) {
			note = "a special kind of request"
		}
		emit(num(i), num(w.buyerOf(d)), state, cents(total), dateOf(placed), d.pick(urgency),
			fmt.Sprintf("Clerk#%05d", d.between(1, max(10, w.sales/100))), note)
	}
}

func (w parts) lines(emit emit) {
	for i := 1; i <= w.sales; i++ {
		_, lines := w.sale(i)
		for n, l := range lines {
			emit(num(i), num(n+1), num(l.good), num(l.maker), cents(l.qty*100), cents(l.amount), cents(l.discount), cents(l.tax),
				l.returned, l.state, dateOf(l.shipped), dateOf(l.promised), dateOf(l.received), l.instruction, l.carrier)
		}
	}
}
