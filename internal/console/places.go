package console

import (
	"maps"
	"slices"
	"strings"
)

// everyPlace lists the pages that are read, by their name in the address.
func (c *Console) everyPlace() map[string]place {
	places := map[string]place{
		"":         {"Now", nil, c.readNow},
		"matter":   {"Matter", []string{"of"}, c.readMatter},
		"content":  {"Content of", []string{"of"}, c.readContent},
		"runs":     {"Runs", []string{"firm", "outcome", "worker", "late", "hours"}, c.readRuns},
		"parked":   {"Parked", parkedFields(), c.readParked},
		"dispatch": {"Dispatch", []string{"verb", "scope"}, c.readDispatch},
		"outbox":   {"Outbox", []string{"name", "verdict"}, c.readOutbox},
	}
	if f, ok := any(c).(further); ok {
		maps.Copy(places, f.furtherPlaces())
	}
	return places
}

// further is a console with pages about what may be taken out of the house whole. The
// files that bring such pages bring this method, and nothing else names them: they can
// be deleted and leave nothing behind.
type further interface {
	furtherPlaces() map[string]place
}

// furtherTabs are links to those of these pages that can be asked for by name alone.
func (c *Console) furtherTabs() (tabs []tab) {
	f, ok := any(c).(further)
	if !ok {
		return nil
	}
	for name, p := range f.furtherPlaces() {
		if len(p.fields) == 0 {
			tabs = append(tabs, tab{URL: name, Label: p.title})
		}
	}
	slices.SortFunc(tabs, func(a, b tab) int { return strings.Compare(a.URL, b.URL) })
	return tabs
}
