package main

import (
	"github.com/spf13/cobra"
)

func (a *app) matterVerbs() *cobra.Command {
	return group("matter", "Look at a matter and change what the rail does for it",
		a.matterList(), a.matterShow(), a.matterDemand(), a.matterPark(), a.matterUnpark(), a.matterCancel(), a.matterPurge())
}

// single reports whether a verb that takes one MATTER or a selection got the
// former; both or neither is a usage error.
func single(args []string, sel *selection) (bool, error) {
	switch {
	case len(args) == 1 && sel.given():
		return false, fail(exitUsage, "name a MATTER or select many, not both")
	case len(args) == 0 && !sel.bounded():
		return false, fail(exitUsage, "name a MATTER, or select many with --firm FIRM or --all")
	}
	return len(args) == 1, nil
}
