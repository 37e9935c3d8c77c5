package archtest

import (
	"fmt"
	"go/ast"
)

// rowLaws stands beside the linter sqlclosecheck, which takes any last call on
// pgx's rows for a close.
func rowLaws() []law {
	q := func(rest string) string {
		return "package jobs\n\nfunc f() (any, error) {\n\trows, err := tx.Query(ctx, q)\n" + rest + "}\n"
	}
	return []law{{
		name:  "rows are closed",
		check: checkRows,
		broken: []example{
			one("internal/jobs/a.go", q("\tfor rows.Next() {\n\t}\n\treturn 1, rows.Err()\n"), "holds its connection"),
			one("internal/jobs/a_test.go", q("\treturn 1, err\n"), "holds its connection"),
		},
		sound: []example{
			one("internal/jobs/a.go", q("\tdefer rows.Close()\n\treturn 1, err\n"), ""),
			one("internal/jobs/a.go", q("\treturn pgx.CollectRows(rows, scan)\n"), ""),
			one("internal/jobs/a.go", q("\treturn rows, err\n"), ""),
			one("internal/jobs/a.go", "package jobs\n\nfunc f() { v := url.Query(); println(v) }\n", ""),
		},
	}}
}

// checkRows wants the rows of every Query closed, handed to a function that
// closes them, or returned.
func checkRows(t *tree) []string {
	var found []string
	for _, f := range t.files {
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			for _, rows := range queried(fn.Body) {
				if !letGo(fn.Body, rows.Name) {
					found = append(found, fmt.Sprintf("%s: %s is not closed: a query that is left open holds its connection; defer its Close, or use pgx.CollectRows or pgx.ForEachRow", f.at(rows.Pos()), rows.Name))
				}
			}
		}
	}
	return found
}

// queried returns the first variable of every "rows, err := x.Query(...)".
func queried(body *ast.BlockStmt) []*ast.Ident {
	var names []*ast.Ident
	ast.Inspect(body, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Lhs) != 2 || len(assign.Rhs) != 1 {
			return true
		}
		call, ok := assign.Rhs[0].(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if name, isName := assign.Lhs[0].(*ast.Ident); ok && isName && sel.Sel.Name == "Query" && name.Name != "_" {
			names = append(names, name)
		}
		return true
	})
	return names
}

// letGo reports whether the function closes the named rows or gives them away.
func letGo(body *ast.BlockStmt, name string) bool {
	is := func(e ast.Expr) bool {
		id, ok := e.(*ast.Ident)
		return ok && id.Name == name
	}
	done := false
	ast.Inspect(body, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.CallExpr:
			for _, arg := range x.Args {
				done = done || is(arg)
			}
			if sel, ok := x.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Close" {
				done = done || is(sel.X)
			}
		case *ast.ReturnStmt:
			for _, result := range x.Results {
				done = done || is(result)
			}
		}
		return !done
	})
	return done
}
