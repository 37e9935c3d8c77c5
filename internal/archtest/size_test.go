package archtest

import (
	"fmt"
	"go/ast"
	"strings"
)

// The budgets: what a reader can hold in mind at once. A file of tests may be a
// little longer, as its tests are read one at a time.
const (
	maxFileLines = 400
	maxTestLines = 500
	maxFuncLines = 60
	maxMainLines = 40
)

func sizeLaws() []law {
	body := func(n int) string { return strings.Repeat("\tprintln()\n", n) }
	return []law{
		{
			name:  "files stay short",
			check: checkFiles,
			broken: []example{
				one("internal/jobs/a.go", "package jobs\n"+strings.Repeat("\n// x\n", maxFileLines/2), "two things"),
				one("internal/jobs/a_test.go", "package jobs\n"+strings.Repeat("\n", maxTestLines), "two things"),
			},
			sound: []example{
				one("internal/jobs/a.go", "package jobs\n"+strings.Repeat("\n", maxFileLines-1), ""),
				one("internal/jobs/a_test.go", "package jobs\n"+strings.Repeat("\n", maxTestLines-1), ""),
			},
		},
		{
			name:  "functions stay short",
			check: checkFunctions,
			broken: []example{
				one("internal/jobs/a.go", "package jobs\n\nfunc f() {\n"+body(maxFuncLines-1)+"}\n", "61 lines"),
				one("cmd/x/main.go", "package main\n\nfunc main() {\n"+body(maxMainLines-1)+"}\n", "main has 41 lines"),
			},
			sound: []example{
				one("internal/jobs/a.go", "package jobs\n\nfunc f() {\n"+body(maxFuncLines-2)+"}\n", ""),
				one("internal/jobs/a.go", "package jobs\n\n// f is one piece because of its order.\nfunc f() {\n"+body(maxFuncLines)+"}\n", ""),
				one("cmd/x/main.go", "package main\n\nfunc main() {\n"+body(maxMainLines-2)+"}\n", ""),
			},
		},
	}
}

// checkFiles counts the lines of every file, tests too.
func checkFiles(t *tree) []string {
	var found []string
	for _, f := range t.files {
		most := maxFileLines
		if f.isTest() {
			most = maxTestLines
		}
		if n := strings.Count(f.text, "\n"); n > most {
			found = append(found, fmt.Sprintf("%s: %d lines, at most %d: it is probably two things", f.path, n, most))
		}
	}
	return found
}

// checkFunctions counts the lines of functions that are not tests.
func checkFunctions(t *tree) []string {
	var found []string
	for _, f := range t.files {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && !f.isTest() {
				found = append(found, measure(f, fn)...)
			}
		}
	}
	return found
}

// measure judges one function.
func measure(f *goFile, fn *ast.FuncDecl) []string {
	n := f.lines(fn.Pos(), fn.End())
	if f.isMain() && fn.Name.Name == "main" && fn.Recv == nil && n > maxMainLines {
		return []string{fmt.Sprintf("%s: main has %d lines, at most %d: parse, call run, choose the exit code", f.at(fn.Pos()), n, maxMainLines)}
	}
	if n <= maxFuncLines || mentions(fn.Doc, "one piece") || f.says(fn.Pos(), fn.End(), "one piece") {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s has %d lines, at most %d unless a comment says why it is one piece", f.at(fn.Pos()), fn.Name.Name, n, maxFuncLines)}
}
