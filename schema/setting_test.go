package schema

import (
	"slices"
	"testing"
)

func TestSettingLine(t *testing.T) {
	for _, tc := range []struct {
		row  [3]string
		want string
	}{
		{[3]string{"u", "", "work_mem=4MB"}, `ALTER ROLE "u" SET "work_mem" TO '4MB'`},
		{[3]string{`a"b`, `d"b`, "app.x=it's"}, `ALTER ROLE "a""b" IN DATABASE "d""b" SET "app"."x" TO 'it''s'`},
		{[3]string{"", "db", `search_path="$user", public`}, `ALTER DATABASE "db" SET "search_path" TO '$user', 'public'`},
		{[3]string{"u", "", `search_path=public,a;ALTER/**/ROLE/**/u/**/SUPERUSER;--`}, `ALTER ROLE "u" SET "search_path" TO 'public', 'a;alter/**/role/**/u/**/superuser;--'`},
		{[3]string{"u", "", `search_path=""`}, `ALTER ROLE "u" SET "search_path" TO ''`},
		{[3]string{"u", "", `search_path=`}, `ALTER ROLE "u" SET "search_path" TO ''`},
		{[3]string{"u", "", `session_preload_libraries="a'b\\c", D`}, `ALTER ROLE "u" SET "session_preload_libraries" TO  E'a''b\\\\c', 'D'`},
		{[3]string{"u", "", `app.path=a, b`}, `ALTER ROLE "u" SET "app"."path" TO 'a, b'`},
		{[3]string{"u", "", `x"; drop=1`}, `ALTER ROLE "u" SET "x""; drop" TO '1'`},
	} {
		if got := settingLine(tc.row[:]); got != tc.want {
			t.Errorf("%q: %s", tc.row, got)
		}
	}
	for list, want := range map[string][]string{
		`a, "b,c" ,"d""e"`: {"a", "b,c", `d"e`}, `"open`: {`"open`}, `a b`: {"a b"}, `a,`: {"a,"}, `,a`: {",a"}, ``: nil,
	} {
		if got := splitNames(list, true); !slices.Equal(got, want) {
			t.Errorf("%q: %q", list, got)
		}
	}
}
