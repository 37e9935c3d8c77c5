package frames

import (
	"math"
	"math/rand"
	"reflect"
	"strconv"
	"strings"
	"testing/quick"
	"unicode/utf16"
)

// document is a random frame that Check must accept.
type document string

var _ quick.Generator = document("")

// Generate implements quick.Generator.
func (document) Generate(r *rand.Rand, size int) reflect.Value {
	g := generator{r: r}
	g.object(size%6 + 1)
	return reflect.ValueOf(document(g.out))
}

type generator struct {
	r   *rand.Rand
	out []byte
}

func (g *generator) space() {
	if g.r.Intn(4) == 0 {
		g.out = append(g.out, " \n\r\t"[g.r.Intn(4)])
	}
}

func (g *generator) object(depth int) {
	g.out = append(g.out, '{')
	seen := map[string]bool{}
	for range g.r.Intn(7) {
		key := g.text()
		if seen[key] {
			continue
		}
		if len(seen) > 0 {
			g.out = append(g.out, ',')
		}
		seen[key] = true
		g.space()
		g.str(key)
		g.space()
		g.out = append(g.out, ':')
		g.value(depth - 1)
	}
	g.space()
	g.out = append(g.out, '}')
}

func (g *generator) value(depth int) {
	g.space()
	kind := g.r.Intn(7)
	switch {
	case kind == 0 && depth > 0:
		g.object(depth)
	case kind == 1 && depth > 0:
		g.out = append(g.out, '[')
		for i := range g.r.Intn(5) {
			if i > 0 {
				g.out = append(g.out, ',')
			}
			g.value(depth - 1)
		}
		g.out = append(g.out, ']')
	case kind <= 3:
		g.str(g.text())
	case kind == 4:
		g.out = append(g.out, []string{"null", "true", "false"}[g.r.Intn(3)]...)
	default:
		g.number()
	}
	g.space()
}

func (g *generator) number() {
	f := math.Float64frombits(g.r.Uint64())
	if g.r.Intn(2) == 0 || math.IsNaN(f) || math.IsInf(f, 0) {
		f = float64(g.r.Intn(2000)-1000) / 8
	}
	g.out = strconv.AppendFloat(g.out, f, "efgE"[g.r.Intn(4)], -1, 64)
}

func (g *generator) text() string {
	pool := []rune("aabb1\"\\/\b\t\n\f\r\x01\x1f\x7f\u0080\u00e9\u2028\u20ac\ud7ff\ue000\ufb33\uffff\U00010000\U0001F600\U0010FFFF")
	text := make([]rune, g.r.Intn(4))
	for i := range text {
		text[i] = pool[g.r.Intn(len(pool))]
	}
	return string(text)
}

// str writes text with a random choice of escapes.
func (g *generator) str(text string) {
	g.out = append(g.out, '"')
	for _, r := range text {
		if r >= 0x20 && r != '"' && r != '\\' && g.r.Intn(3) > 0 {
			g.out = append(g.out, string(r)...)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			hex := strconv.FormatUint(uint64(unit)+0x10000, 16)[1:]
			if g.r.Intn(2) == 0 {
				hex = strings.ToUpper(hex)
			}
			g.out = append(append(g.out, `\u`...), hex...)
		}
	}
	g.out = append(g.out, '"')
}
