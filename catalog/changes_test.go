package catalog

import "testing"

func TestChanges(t *testing.T) {
	for body, want := range map[string]bool{
		"SELECT price FROM products":                                     false,
		"begin if tg_op = 'INSERT' then return new; end if; end":         false,
		"select 1 from products for update":                              false,
		"-- delete from products\nselect 1":                              false,
		"begin update /* all */ products set price = 0; end":             true,
		"UPDATE public.products AS p SET price = 0":                      true,
		`update only "my products" set price = 0`:                        true,
		"insert\n into products values (1)":                              true,
		"delete from products":                                           true,
		"with x as (delete from only products returning 1) select 1":     true,
		"truncate a, products":                                           true,
		"merge into products using a on true when matched then delete;":  true,
		"begin perform update_totals(); set_config('a', 'b', true); end": false,
	} {
		if got := Changes(body); got != want {
			t.Errorf("%s: %v", body, got)
		}
	}
}
