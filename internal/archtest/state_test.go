package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

func stateLaws() []law {
	ctx := "import \"context\"\n\n"
	bubble := "import (\n\t\"testing/synctest\"\n\t\"time\"\n)\n\n"
	return []law{
		{
			name:   "no init",
			check:  checkInit,
			broken: []example{one("internal/jobs/a.go", "package jobs\n\nfunc init() {}\n", "init")},
			sound:  []example{one("internal/jobs/a.go", "package jobs\n\ntype j int\n\nfunc (j) init() {}\n", "")},
		},
		{
			name:  "no package variable that can change",
			check: checkVars,
			broken: []example{
				one("internal/jobs/a.go", "package jobs\n\nvar count int\n", "count"),
				one("internal/jobs/a.go", "package jobs\n\n// constant\nvar Table = map[string]int{}\n", "Table"),
				one("internal/jobs/a.go", "package jobs\n\nvar now = f()\n\nfunc f() int { return 1 }\n", "now"),
			},
			sound: []example{
				one("internal/jobs/a.go", "package jobs\n\nimport \"errors\"\n\nvar ErrX = errors.New(`x`)\n", ""),
				one("internal/jobs/a.go", "package jobs\n\nimport \"regexp\"\n\nvar name = regexp.MustCompile(`x`)\n", ""),
				one("internal/jobs/a.go", "package jobs\n\n// constant\nvar table = map[string]int{}\n", ""),
				one("internal/jobs/a.go", "package jobs\n\nvar table = []int{1} // constant\n", ""),
				one("internal/jobs/a.go", "package jobs\n\nimport \"fmt\"\n\nvar _ fmt.Stringer = nil\n", ""),
				one("migrations/a.go", "package migrations\n\nimport \"embed\"\n\n//go:embed *.sql\nvar Files embed.FS\n", ""),
			},
		},
		{
			name:  "no context out of nowhere",
			check: checkContexts,
			broken: []example{
				one("internal/jobs/a.go", "package jobs\n\n"+ctx+"func f() { _ = context.Background() }\n", "whose caller waits"),
				one("internal/jobs/a.go", "package jobs\n\nimport c \"context\"\n\nfunc f() { _ = c.Background() }\n", "whose caller waits"),
			},
			sound: []example{
				one("internal/jobs/a.go", "package jobs\n\n"+ctx+"func f() {\n\t// bounded clean-up: five seconds\n\t_ = context.Background()\n}\n", ""),
				one("cmd/x/main.go", "package main\n\n"+ctx+"func main() { _ = context.Background() }\n", ""),
				one("internal/jobs/a_test.go", "package jobs\n\n"+ctx+"func f() { _ = context.Background() }\n", ""),
			},
		},
		{
			name:  "tests do not sleep",
			check: checkSleeps,
			broken: []example{
				one("internal/jobs/a_test.go", "package jobs\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n", "flake"),
				one("internal/pg/pgtest/a.go", "package pgtest\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n", "flake"),
				one("internal/jobs/a_test.go", "package jobs\n\n"+bubble+"func f() { synctest.Test(nil, g) }\n\nfunc g() { time.Sleep(1) }\n", "a_test.go:10"),
				one("internal/jobs/a_test.go", "package jobs\n\n"+bubble+"func f() { synctest.Wait(); time.Sleep(1) }\n", "flake"),
			},
			sound: []example{
				one("internal/jobs/a_test.go", "package jobs\n\n"+bubble+"func f() { synctest.Test(nil, func() { go func() { time.Sleep(1) }() }) }\n", ""),
				one("internal/jobs/a.go", "package jobs\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n", ""),
			},
		},
	}
}

// checkInit refuses init functions: what a program does is written in main.
func checkInit(t *tree) []string {
	var found []string
	for _, f := range t.production() {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				found = append(found, f.at(fn.Pos())+": init runs unasked: call it where the program is assembled")
			}
		}
	}
	return found
}

// checkVars refuses package variables that anything could change.
func checkVars(t *tree) []string {
	var found []string
	for _, f := range t.files {
		if f.isTest() {
			continue
		}
		for _, decl := range f.ast.Decls {
			if group, ok := decl.(*ast.GenDecl); ok && group.Tok == token.VAR {
				found = append(found, changeable(f, group)...)
			}
		}
	}
	return found
}

// changeable lists the names of one var declaration that the law refuses.
func changeable(f *goFile, group *ast.GenDecl) []string {
	var found []string
	for _, spec := range group.Specs {
		vs, ok := spec.(*ast.ValueSpec)
		if !ok || embedded(group, vs) {
			continue
		}
		table := mentions(group.Doc, "constant") || mentions(vs.Doc, "constant") || mentions(vs.Comment, "constant")
		for i, name := range vs.Names {
			if name.Name == "_" || (table && !name.IsExported()) || (i < len(vs.Values) && fixed(vs.Values[i])) {
				continue
			}
			found = append(found, fmt.Sprintf("%s: package variable %s: hand state to what needs it; an unexported table that never changes says so with a comment: constant", f.at(name.Pos()), name.Name))
		}
	}
	return found
}

// embedded reports whether the compiler fills the variable from files.
func embedded(group *ast.GenDecl, vs *ast.ValueSpec) bool {
	for _, doc := range []*ast.CommentGroup{group.Doc, vs.Doc} {
		if doc == nil {
			continue
		}
		if slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") }) {
			return true
		}
	}
	return false
}

// fixed reports whether a value is an error sentinel or a compiled pattern.
func fixed(value ast.Expr) bool {
	call, ok := value.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && slices.Contains([]string{"errors.New", "fmt.Errorf", "regexp.MustCompile"}, pkg.Name+"."+sel.Sel.Name)
}

// checkContexts refuses contexts that no caller can end, outside programs,
// tests, and clean-up that says it is bounded.
func checkContexts(t *tree) []string {
	var found []string
	for _, f := range t.production() {
		if f.isMain() {
			continue
		}
		for _, symbol := range []string{"Background", "TO" + "DO"} {
			for _, pos := range f.uses("context", symbol) {
				if !cleanUp(f, pos) {
					found = append(found, fmt.Sprintf("%s: context.%s: take the context whose caller waits, or say in a comment that this is bounded clean-up", f.at(pos), symbol))
				}
			}
		}
	}
	return found
}

// cleanUp reports whether the function around pos calls itself bounded clean-up.
func cleanUp(f *goFile, pos token.Pos) bool {
	for _, decl := range f.ast.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if ok && fn.Pos() <= pos && pos < fn.End() {
			return mentions(fn.Doc, "bounded clean-up") || f.says(fn.Pos(), fn.End(), "bounded clean-up")
		}
	}
	return false
}

// checkSleeps refuses waiting by the clock in tests and what serves them. In a
// synctest bubble a sleep costs nothing and is exact; it must stand between the
// brackets of synctest.Test, as a function further off may be called from anywhere.
func checkSleeps(t *tree) []string {
	var found []string
	for _, f := range t.files {
		if !f.support() {
			continue
		}
		bubbles := f.calls("testing/synctest", "Test")
		for _, pos := range f.uses("time", "Sleep") {
			if slices.ContainsFunc(bubbles, func(c *ast.CallExpr) bool { return c.Pos() < pos && pos < c.End() }) {
				continue
			}
			found = append(found, f.at(pos)+": time.Sleep: a flake in waiting: use a synctest bubble, age the row, or wait for a signal with a deadline")
		}
	}
	return found
}
