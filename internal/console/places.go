package console

// everyPlace lists the pages that are read, by their name in the address.
func (c *Console) everyPlace() map[string]place {
	return map[string]place{
		"":         {"Now", nil, c.readNow},
		"matter":   {"Matter", []string{"of"}, c.readMatter},
		"content":  {"Content of", []string{"of"}, c.readContent},
		"runs":     {"Runs", []string{"firm", "outcome", "worker", "late", "hours"}, c.readRuns},
		"parked":   {"Parked", parkedFields(), c.readParked},
		"dispatch": {"Dispatch", []string{"verb", "scope"}, c.readDispatch},
		"outbox":   {"Outbox", []string{"name", "verdict"}, c.readOutbox},
	}
}
