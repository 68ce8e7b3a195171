package analytics

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"time"
)

// dice are the chances of one row. They begin anew with every row, from the
// table's name and the row's number: so a table of returns can ask for the sale
// it is about without keeping it, and the rows are the same in every run.
type dice struct{ state uint64 }

func roll(table string, row int) *dice {
	h := fnv.New64a()
	fmt.Fprint(h, table, row)
	return &dice{h.Sum64()}
}

// next is splitmix64.
func (d *dice) next() uint64 {
	d.state += 0x9e3779b97f4a7c15
	z := d.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// between is a number from low to high, both included.
func (d *dice) between(low, high int) int {
	return low + int(d.next()%uint64(high-low+1))
}

// oneIn is true once in n times.
func (d *dice) oneIn(n int) bool { return d.next()%uint64(n) == 0 }

// few is a number from 1 to n that is small more often than large: some buyers
// buy most.
func (d *dice) few(n int) int {
	return 1 + min(d.between(0, n-1), d.between(0, n-1))
}

func (d *dice) pick(words []string) string { return words[d.next()%uint64(len(words))] }

func (d *dice) digits(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = '0' + byte(d.next()%10)
	}
	return string(b)
}

// maybe is the value, or NULL once in n times.
func (d *dice) maybe(n int, value string) string {
	if d.oneIn(n) {
		return null
	}
	return value
}

// null is COPY's.
const null = `\N`

func num(n int) string { return strconv.Itoa(n) }

// cents writes an amount of money.
func cents(n int) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	return fmt.Sprintf("%s%d.%02d", sign, n/100, n%100)
}

// dateOf is a day by its distance from the first of the data.
func dateOf(n int) string { return firstDay.AddDate(0, 0, n).Format(time.DateOnly) }

var firstDay = time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)

// days is how many the data covers: three years.
const days = 1095
