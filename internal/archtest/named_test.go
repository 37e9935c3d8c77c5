package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A document that names a test which does not exist promises a proof that nobody
// runs.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	defined := map[string]bool{}
	named := map[string]string{} // test to the document that names it
	function := regexp.MustCompile(`(?m)^func (Test\w+|Fuzz\w+|Benchmark\w+)\(`)
	mention := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z0-9]\\w*)`")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return fs.SkipDir
		case strings.HasSuffix(path, "_test.go"), strings.HasSuffix(path, ".md"):
		default:
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".md") {
			for _, m := range mention.FindAllStringSubmatch(string(text), -1) {
				named[m[1]] = path
			}
			return nil
		}
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			defined[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(named) == 0 {
		t.Fatal("no document names a test: the pattern is broken")
	}
	for test, doc := range named {
		if !defined[test] {
			t.Errorf("%s names %s, and no such test exists", doc, test)
		}
	}
}
