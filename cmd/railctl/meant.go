package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// meant adds to the refusal of an unknown verb those that may have been meant: of
// the same name elsewhere in the tree, as "park" for "matter park", or of nearly
// the same below the verb that was understood.
func meant(root, at *cobra.Command, err error) error {
	if !strings.HasPrefix(err.Error(), "unknown command ") {
		return err
	}
	head, _, _ := strings.Cut(err.Error(), "\n") // without cobra's own suggestions
	typed := ""
	if _, scan := fmt.Sscanf(head, "unknown command %q", &typed); scan != nil {
		return err
	}
	near := named(root, typed)
	at.SuggestionsMinimumDistance = 2
	for _, name := range at.SuggestionsFor(typed) {
		near = append(near, at.CommandPath()+" "+name)
	}
	slices.Sort(near)
	near = slices.Compact(near)
	if len(near) == 0 {
		return errors.New(head)
	}
	return fmt.Errorf("%s: did you mean\n%s", head, strings.Join(near, "\n"))
}

// named are the paths of all verbs of this name.
func named(cmd *cobra.Command, name string) (paths []string) {
	for _, c := range cmd.Commands() {
		if c.Name() == name && c.IsAvailableCommand() {
			paths = append(paths, c.CommandPath())
		}
		paths = append(paths, named(c, name)...)
	}
	return paths
}
