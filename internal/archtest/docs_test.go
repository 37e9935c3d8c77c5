package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
)

// vague names promise nothing and so collect everything.
func vague(name string) bool {
	return slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "types", "store", "manager", "misc"}, name)
}

// ownWords are methods whose meaning an interface of the standard library
// fixes, so a comment could only repeat it.
func ownWords(name string) bool {
	return slices.Contains([]string{"Error", "Unwrap", "String", "MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "LogValue"}, name)
}

func docLaws() []law {
	return []law{
		{
			name:   "packages say what they own",
			check:  checkPackageDocs,
			broken: []example{one("internal/jobs/a.go", "package jobs\n", "doc comment")},
			sound: []example{
				one("internal/jobs/a.go", "// Package jobs owns the ledger row.\npackage jobs\n", ""),
				{files: map[string]string{
					"internal/jobs/a.go":   "package jobs\n",
					"internal/jobs/doc.go": "// Package jobs owns the ledger row.\npackage jobs\n",
				}},
			},
		},
		{
			name:  "package names say something",
			check: checkPackageNames,
			broken: []example{
				one("internal/util/a.go", "package util\n", "collects everything"),
				one("internal/jobs/store/a.go", "package jobstore\n", "collects everything"),
			},
			sound: []example{one("internal/jobs/a.go", "package jobs\n", "")},
		},
		{
			name:  "exported names are documented",
			check: checkExported,
			broken: []example{
				one("internal/jobs/a.go", "package jobs\n\nfunc Claim() {}\n", "Claim"),
				one("internal/jobs/a.go", "package jobs\n\ntype Row struct{}\n", "Row"),
				one("internal/jobs/a.go", "package jobs\n\nconst Max = 1\n", "Max"),
				one("internal/jobs/a.go", "package jobs\n\n// Row is a row.\ntype Row int\n\nfunc (r *Row) Land() {}\n", "Land"),
			},
			sound: []example{
				one("internal/jobs/a.go", "package jobs\n\n// Claim claims.\nfunc Claim() {}\n", ""),
				one("internal/jobs/a.go", "package jobs\n\n// The states.\nconst (\n\tIdle = 1\n\tDone = 2\n)\n", ""),
				one("internal/jobs/a.go", "package jobs\n\ntype row int\n\nfunc (r row) Land() {}\n\nfunc claim() {}\n", ""),
				one("internal/jobs/a.go", "package jobs\n\n// Row is a row.\ntype Row int\n\nfunc (r Row) String() string { return `` }\n", ""),
			},
		},
	}
}

// checkPackageDocs wants one doc comment in every package.
func checkPackageDocs(t *tree) []string {
	var found []string
	for dir, files := range t.packages() {
		if !slices.ContainsFunc(files, func(f *goFile) bool { return f.ast.Doc != nil }) {
			found = append(found, fmt.Sprintf("%s: the package has no doc comment: what it owns, its states, who decides, what it does not promise", dir))
		}
	}
	return found
}

// checkPackageNames refuses folders and packages called after nothing.
func checkPackageNames(t *tree) []string {
	var found []string
	for dir, files := range t.packages() {
		if vague(path.Base(dir)) || vague(files[0].ast.Name.Name) {
			found = append(found, fmt.Sprintf("%s: a package of this name collects everything: call it after what it owns", dir))
		}
	}
	return found
}

// checkExported wants a comment on every exported name of production code.
func checkExported(t *tree) []string {
	var found []string
	for _, f := range t.files {
		if f.isTest() {
			continue
		}
		for _, decl := range f.ast.Decls {
			for _, name := range bare(decl) {
				found = append(found, fmt.Sprintf("%s: exported %s has no comment: say its shape, units and errors", f.at(name.Pos()), name.Name))
			}
		}
	}
	return found
}

// bare returns the exported names of a declaration that no comment describes.
func bare(decl ast.Decl) []*ast.Ident {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && reachable(d) && !ownWords(d.Name.Name) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		if d.Doc == nil {
			return bareSpecs(d.Specs)
		}
	}
	return nil
}

// bareSpecs returns the exported names of a group without a comment of its own.
func bareSpecs(specs []ast.Spec) []*ast.Ident {
	var names []*ast.Ident
	for _, spec := range specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Doc == nil && s.Comment == nil && s.Name.IsExported() {
				names = append(names, s.Name)
			}
		case *ast.ValueSpec:
			if s.Doc == nil && s.Comment == nil {
				names = append(names, slices.DeleteFunc(slices.Clone(s.Names), func(n *ast.Ident) bool { return !n.IsExported() })...)
			}
		}
	}
	return names
}

// reachable reports whether a function can be named from outside: no receiver,
// or one of an exported type.
func reachable(fn *ast.FuncDecl) bool {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return true
	}
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}
