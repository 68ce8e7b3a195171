package schema

import (
	"slices"
	"testing"
)

func TestEndless(t *testing.T) {
	home := []string{
		"CREATE SEQUENCE public.s AS bigint INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1 NO CYCLE",
		"SELECT pg_catalog.setval('public.\"it''s\"', 9223372036854775807, true)",
		"CREATE TABLE t (\n\tid bigint GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME t_id_seq START WITH 1 INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 CACHE 1 NO CYCLE) NOT NULL\n)",
	}
	there := []string{
		"CREATE SEQUENCE public.s AS bigint INCREMENT BY 1 MINVALUE 1 MAXVALUE 2000 START WITH 1 CACHE 1 NO CYCLE",
		"SELECT pg_catalog.setval('public.\"it''s\"', 2000, true)",
		"CREATE TABLE t (\n\tid bigint GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME t_id_seq START WITH 1 INCREMENT BY 1 MINVALUE 1 MAXVALUE 2000 CACHE 1 NO CYCLE) NOT NULL\n)",
	}
	if !slices.Equal(endless(home), endless(there)) {
		t.Errorf("%q and %q", endless(home), endless(there))
	}
	there[0] = "CREATE SEQUENCE public.s AS bigint INCREMENT BY 2 MINVALUE 1 MAXVALUE 2000 START WITH 1 CACHE 1 NO CYCLE"
	if slices.Equal(endless(home), endless(there)) {
		t.Error("another increment makes no difference")
	}
}
