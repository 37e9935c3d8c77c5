package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// module is the import path of the repository, as go.mod has it.
const module = "briefrail"

// goFile is one parsed Go file.
type goFile struct {
	path string // slash-separated, from the root of the module
	dir  string
	fset *token.FileSet
	ast  *ast.File
	text string
}

// isTest reports whether the file is only compiled into tests.
func (f *goFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// support reports whether the file only ever serves tests: a test itself, the
// cloned databases, or these laws.
func (f *goFile) support() bool {
	return f.isTest() || within(f.dir, "internal/pg/pgtest") || within(f.dir, "internal/archtest")
}

// isMain reports whether the file belongs to a program.
func (f *goFile) isMain() bool { return f.ast.Name.Name == "main" }

// at names a place in the file, for messages.
func (f *goFile) at(p token.Pos) string {
	return fmt.Sprintf("%s:%d", f.path, f.fset.Position(p).Line)
}

// lines counts the lines from one place to another, both included.
func (f *goFile) lines(from, to token.Pos) int {
	return f.fset.Position(to).Line - f.fset.Position(from).Line + 1
}

// imports returns the import paths of the file with their places.
func (f *goFile) imports() map[string]token.Pos {
	found := make(map[string]token.Pos)
	for _, spec := range f.ast.Imports {
		if name, err := strconv.Unquote(spec.Path.Value); err == nil {
			found[name] = spec.Pos()
		}
	}
	return found
}

// uses returns the places where the file names symbol of the package imported
// as path, whatever local name that import has.
func (f *goFile) uses(path, symbol string) []token.Pos {
	local := ""
	for _, spec := range f.ast.Imports {
		if spec.Path.Value == strconv.Quote(path) {
			local = path[strings.LastIndexByte(path, '/')+1:]
			if spec.Name != nil {
				local = spec.Name.Name
			}
		}
	}
	var places []token.Pos
	ast.Inspect(f.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != symbol {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && local != "" && x.Name == local {
			places = append(places, sel.Pos())
		}
		return true
	})
	return places
}

// calls finds the calls of an exported symbol of a package.
func (f *goFile) calls(path, symbol string) (found []*ast.CallExpr) {
	places := f.uses(path, symbol)
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok && slices.Contains(places, c.Fun.Pos()) {
			found = append(found, c)
		}
		return true
	})
	return found
}

// says reports whether a comment between two places contains phrase.
func (f *goFile) says(from, to token.Pos, phrase string) bool {
	for _, group := range f.ast.Comments {
		if group.Pos() >= from && group.End() <= to && mentions(group, phrase) {
			return true
		}
	}
	return false
}

// mentions reports whether a comment contains phrase; a line break counts as a
// space, and no comment contains nothing.
func mentions(group *ast.CommentGroup, phrase string) bool {
	return group != nil && strings.Contains(strings.Join(strings.Fields(group.Text()), " "), phrase)
}

// tree is the module as written: its Go files and the text of every file.
type tree struct {
	files []*goFile
	texts map[string]string
}

// load reads every text file of the module below fsys. Folders that hold what
// was built, fetched or brought along by another module are left out.
func load(fsys fs.FS) (*tree, error) {
	t := &tree{texts: make(map[string]string)}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skipDir(fsys, name)
		}
		return t.add(fsys, name, entry)
	})
	return t, err
}

// skipDir leaves out folders that are not part of this module.
func skipDir(fsys fs.FS, name string) error {
	if name == "." {
		return nil
	}
	if slices.Contains([]string{".git", ".cache", "bin"}, name) {
		return fs.SkipDir
	}
	if _, err := fs.Stat(fsys, path.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// maxText is the largest file, in bytes, that is read as text.
const maxText = 1 << 20

// add reads one file, and parses it when it is Go.
func (t *tree) add(fsys fs.FS, name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxText {
		return err
	}
	data, err := fs.ReadFile(fsys, name)
	if err != nil || strings.ContainsRune(string(data), 0) {
		return err
	}
	t.texts[name] = string(data)
	if path.Ext(name) != ".go" || strings.Contains(name, "testdata/") {
		return nil
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("reading Go source: %w", err)
	}
	t.files = append(t.files, &goFile{path: name, dir: path.Dir(name), fset: fset, ast: parsed, text: string(data)})
	return nil
}

// production returns the files that programs are made of.
func (t *tree) production() []*goFile {
	return slices.DeleteFunc(slices.Clone(t.files), (*goFile).support)
}

// packages groups the files that are not tests by folder.
func (t *tree) packages() map[string][]*goFile {
	byDir := make(map[string][]*goFile)
	for _, f := range t.files {
		if !f.isTest() {
			byDir[f.dir] = append(byDir[f.dir], f)
		}
	}
	return byDir
}

// within reports whether dir is parent or lies below it.
func within(dir, parent string) bool {
	return dir == parent || strings.HasPrefix(dir, parent+"/")
}

// law is one rule of the house.
type law struct {
	name   string
	check  func(*tree) []string
	broken []example // each must be refused, with its words
	sound  []example // none may be refused
}

// example is a tiny module, path to text, and what the law must say about it.
type example struct {
	files map[string]string
	want  string
}

// one is an example of a single file.
func one(name, text, want string) example {
	return example{files: map[string]string{name: text}, want: want}
}

// laws lists every rule, in the order of the files that state them.
func laws() []law {
	return slices.Concat(importLaws(), tableLaws(), rowLaws(), sizeLaws(), docLaws(), stateLaws(), wordLaws())
}

// TestLaws holds the module against every law.
func TestLaws(t *testing.T) {
	t.Parallel()
	module, err := load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(module.production()) == 0 {
		t.Fatal("no Go source found: the laws would judge nothing")
	}
	for _, l := range laws() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			for _, complaint := range l.check(module) {
				t.Error(complaint)
			}
		})
	}
}

// TestLawsBite shows every law an example that breaks it and one that does not.
func TestLawsBite(t *testing.T) {
	t.Parallel()
	for _, l := range laws() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			if len(l.broken) == 0 || len(l.sound) == 0 {
				t.Fatal("a law needs an example that breaks it and one that does not")
			}
			for _, e := range l.broken {
				bites(t, l, e)
			}
			for _, e := range l.sound {
				if got := l.check(parse(t, e)); len(got) > 0 {
					t.Errorf("refuses what it should accept: %q in %v", got, e.files)
				}
			}
		})
	}
}

// bites fails the test unless the law refuses the example in the expected words.
func bites(t *testing.T, l law, e example) {
	t.Helper()
	got := strings.Join(l.check(parse(t, e)), "\n")
	if got == "" || !strings.Contains(got, e.want) {
		t.Errorf("said %q, want a complaint with %q about %v", got, e.want, slices.Collect(maps.Keys(e.files)))
	}
}

// parse loads an example.
func parse(t *testing.T, e example) *tree {
	t.Helper()
	fsys := make(fstest.MapFS)
	for name, text := range e.files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	loaded, err := load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}
