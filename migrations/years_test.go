package migrations_test

import "testing"

// A time without a year that a program can write breaks every list that it is part of.
// Left out: a time that is only compared, and the table that the migrator makes itself.
const yearlessSQL = `
SELECT a.attrelid::regclass || '.' || a.attname FROM pg_attribute a JOIN pg_class r ON r.oid = a.attrelid
 WHERE r.relnamespace = 'ops'::regnamespace AND r.relkind = 'r' AND a.atttypid = 'timestamptz'::regtype AND NOT a.attisdropped
   AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conrelid = r.oid AND c.contype = 'c' AND a.attnum = ANY (c.conkey)
     AND c.conname ~ '_a_year$' AND pg_get_constraintdef(c.oid) ~ '0001-02-01' AND pg_get_constraintdef(c.oid) ~ '9999-1[12]-')
   AND a.attrelid::regclass || '.' || a.attname NOT IN ('ops.ledger.canary_asked_at', 'ops.schema_checksums.applied_at')
 ORDER BY 1`

func TestEveryTimeHasAYear(t *testing.T) {
	t.Parallel()
	for _, c := range column(t, yearlessSQL) {
		t.Errorf("%s: no CHECK bounds its years", c)
	}
}
