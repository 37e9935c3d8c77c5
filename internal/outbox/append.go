package outbox

// AppendFromCTE is the common table expression by which a transition tells the
// world what it did, in its own statement: one fact for each row s of source that
// passes where, traced by the SQL expression trace. Named argument: @fact (event
// name).
func AppendFromCTE(name, source, where, trace string) string {
	return `, ` + name + ` AS (
  INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name, traceparent)
  SELECT s.firm_id, s.matter_id, @fact::text, ` + trace + ` FROM ` + source + ` s WHERE ` + where + `
  RETURNING event_id
)`
}
