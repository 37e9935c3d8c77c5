package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// quoted words of a command line, and the others.
var shellWord = regexp.MustCompile(`'[^']*'|[^\s']+`)

// commands are what a text tells people to type, after "railctl": the lines of its
// blocks and the spans of its sentences, which may be broken anywhere.
func commands(text string) (all [][]string) {
	for i, part := range strings.Split(text, "```") {
		lines := strings.Split(part, "\n")
		if i%2 == 0 {
			lines = strings.Split(strings.Join(strings.Fields(part), " "), "`")
		}
		for _, line := range lines {
			typed, ok := strings.CutPrefix(strings.TrimSpace(line), "railctl ")
			if !ok {
				continue
			}
			typed, _, _ = strings.Cut(typed, "#")
			words := shellWord.FindAllString(typed, -1)
			for i := range words {
				words[i] = strings.Trim(words[i], "'")
			}
			all = append(all, words)
		}
	}
	return all
}

// At three in the morning nobody guesses what a verb is called today; and whoever reads
// any other page types what stands there.
func TestPagesNameVerbsThatAreThere(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	least := map[string]int{"runbook.md": 100, "ADOPTING.md": 20}
	for _, path := range append(pages, "../../README.md") {
		namesVerbs(t, path, least[filepath.Base(path)])
	}
}

// namesVerbs looks at every command of a document, of which there are some at least.
func namesVerbs(t *testing.T, path string, least int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := commands(string(text))
	if len(all) < least {
		t.Errorf("only %d commands are seen in %s", len(all), path)
	}
	for _, words := range all {
		typed := path + ": railctl " + strings.Join(words, " ")
		root := (&app{stdout: io.Discard, stderr: io.Discard}).root()
		root.InitDefaultHelpCmd()
		cmd, rest, err := root.Find(words)
		if err != nil || cmd == root {
			t.Errorf("%s: %v", typed, err)
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", typed, err)
			continue
		}
		if len(rest) == 0 {
			continue // it is spoken of, or needs nothing
		}
		if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
			t.Errorf("%s: %v", typed, err)
		}
		if cmd.Flags().Lookup("reason") != nil && !cmd.Flags().Changed("reason") && !cmd.Flags().Changed("dry-run") {
			t.Errorf("%s: it changes something and gives no reason", typed)
		}
	}
}
