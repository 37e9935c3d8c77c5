package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"briefrail/internal/audit"
	"briefrail/internal/rail"
)

// selection is how many matters are named at once.
type selection struct {
	firm, status, notBuilder, after string
	all                             bool
	limit                           int
	statuses                        []string // those that the verb can change
}

func (sel *selection) flags(cmd *cobra.Command, statuses ...string) {
	sel.statuses = statuses
	fs := cmd.Flags()
	fs.StringVar(&sel.firm, "firm", "", "select the matters of one `firm`")
	fs.BoolVar(&sel.all, "all", false, "select the matters of every firm")
	fs.StringVar(&sel.status, "status", "", "of those only jobs in this `state`: "+strings.Join(statuses, ", "))
	fs.StringVar(&sel.notBuilder, "not-by-builder", "", "of those only matters whose current frame is not by this builder `version`; versions have no order")
	fs.IntVar(&sel.limit, "limit", 0, "change at most so `many` (0: all)")
	fs.StringVar(&sel.after, "after", "", "go on after this `MATTER`, where a run before stopped")
}

// given reports whether any of the flags was used.
func (sel *selection) given() bool {
	return sel.bounded() || sel.status != "" || sel.notBuilder != "" || sel.limit != 0 || sel.after != ""
}

// bounded reports whether the selection says how far it reaches.
func (sel *selection) bounded() bool { return sel.firm != "" || sel.all }

// filter checks the selection.
func (sel *selection) filter() (f audit.BulkFilter, after rail.Key, err error) {
	if sel.firm != "" && sel.all {
		return f, after, fail(exitUsage, "--firm and --all: use one of them")
	}
	if sel.status != "" && !slices.Contains(sel.statuses, sel.status) {
		return f, after, fail(exitUsage, "--status %q: use %s", sel.status, strings.Join(sel.statuses, ", "))
	}
	if sel.limit < 0 {
		return f, after, fail(exitUsage, "--limit %d: want 0 or more", sel.limit)
	}
	f = audit.BulkFilter{All: sel.all, Status: sel.status, BuilderNot: sel.notBuilder}
	if f.Firm, err = firm(sel.firm); err != nil {
		return f, after, err
	}
	if sel.after != "" {
		if after, err = rail.ParseKey(sel.after); err != nil {
			return f, after, fail(exitUsage, "--after: %w", err)
		}
	}
	return f, after, nil
}
