package conformance_test

import "strings"

type fault struct {
	statement string
	old, new  string
	then      string
}

func (f *fault) change(sql string) (string, bool) {
	if f.statement != sql {
		return sql, false
	}
	return strings.ReplaceAll(sql, f.old, f.new), true
}
