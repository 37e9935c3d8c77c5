package explorer

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"briefrail/internal/model/specs"
)

// mostSteps is the longest path that the page follows.
const mostSteps = 100

// place is where somebody stands: a variant of a model and a path in it. It is what
// an address says.
type place struct {
	design design
	path   []int // of the whole way
	at     int   // steps of it that have been taken

	check  bool   // the verdicts are shown
	play   bool   // the rest of the path is to be shown step by step
	beside string // the same path is played in the variant that this turn leads to

	// Wishes that lead to another place.
	turn    string // a switch, or version:NAME, or gate:NAME
	checked bool   // check, and play what it finds
}

// design is one variant of a model.
type design struct {
	entry specs.Entry
	specs.Options
}

// find makes the variant.
func (d design) find() (specs.Checked, error) { return specs.Find(d.entry.Name, d.Options) }

// turned is the design with one thing different.
func (d design) turned(turn string) (design, error) {
	switch what, name, named := strings.Cut(turn, ":"); {
	case named && what == "version":
		d.Version = name
	case named && what == "gate":
		d.Gate = name
	case slices.Contains(d.Without, turn):
		d.Without = slices.DeleteFunc(slices.Clone(d.Without), func(s string) bool { return s == turn })
	default:
		d.Without = append(slices.Clone(d.Without), turn)
	}
	_, err := d.find()
	return d, err
}

// parse reads an address. It refuses whatever it does not know: a link that is
// taken for another one misleads.
func parse(raw string) (place, error) {
	if len(raw) > mostQuery {
		return place{}, fmt.Errorf("the address has %d bytes behind the question mark: at most %d are read", len(raw), mostQuery)
	}
	q, err := url.ParseQuery(raw)
	if err != nil {
		return place{}, fmt.Errorf("the address cannot be read: %w", err)
	}
	for name, values := range q {
		switch {
		case !slices.Contains([]string{"model", "workers", "faults", "demands", "attempts", "without", "version", "gate", "path", "at", "check", "play", "beside", "turn"}, name):
			return place{}, fmt.Errorf("the address says %s=, which the page does not know", name)
		case len(values) > 1:
			return place{}, fmt.Errorf("the address says %s= more than once", name)
		}
	}
	p := place{beside: q.Get("beside"), turn: q.Get("turn")}
	if p.design, err = parseDesign(q); err != nil {
		return place{}, err
	}
	if err := p.parsePath(q); err != nil {
		return place{}, err
	}
	return p, p.parseWishes(q)
}

// parseDesign reads the variant; the models themselves know what may be given.
func parseDesign(q url.Values) (design, error) {
	d := design{entry: specs.List()[0], Options: specs.Options{Faults: specs.Default, Version: q.Get("version"), Gate: q.Get("gate")}}
	if name := q.Get("model"); name != "" {
		all := specs.List()
		at := slices.IndexFunc(all, func(e specs.Entry) bool { return e.Name == name })
		if at < 0 {
			return d, fmt.Errorf("there is no model %q", name)
		}
		d.entry = all[at]
	}
	for _, b := range d.bounds() {
		n, err := number(q, b.name, b.bound.Default, b.least)
		if err != nil {
			return d, err
		}
		*b.value = n
	}
	if names := q.Get("without"); names != "" {
		d.Without = strings.Split(names, ",")
		slices.Sort(d.Without)
		d.Without = slices.Compact(d.Without)
	}
	d.Version = last(d.Version, d.entry.Versions)
	d.Gate = last(d.Gate, d.entry.Gates)
	_, err := d.find()
	return d, err
}

// bounded is one of the numbers of a design.
type bounded struct {
	name  string
	bound specs.Bound
	least int
	value *int
}

func (d *design) bounds() []bounded {
	return []bounded{
		{"workers", d.entry.Workers, min(1, d.entry.Workers.Most), &d.Workers},
		{"faults", d.entry.Faults, 0, &d.Faults},
		{"demands", d.entry.Demands, min(1, d.entry.Demands.Most), &d.Demands},
		{"attempts", d.entry.Attempts, min(1, d.entry.Attempts.Most), &d.Attempts},
	}
}

// last is a choice with its default written out, so that a link goes on meaning the
// same.
func last(chosen string, among []string) string {
	if chosen == "" && len(among) > 0 {
		return among[len(among)-1]
	}
	return chosen
}

// number reads a number that is not below least.
func number(q url.Values, name string, otherwise, least int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, fmt.Errorf("%s=%q: give a whole number from %d", name, text, least)
	}
	return n, nil
}

// parsePath reads the steps, and how many of them have been taken.
func (p *place) parsePath(q url.Values) (err error) {
	if text := q.Get("path"); text != "" {
		words := strings.Split(text, ".")
		if len(words) > mostSteps {
			return fmt.Errorf("the path has %d steps: the page follows at most %d", len(words), mostSteps)
		}
		for i, word := range words {
			n, err := strconv.Atoi(word)
			if err != nil || n < 0 {
				return fmt.Errorf("step %d of the path is %q: give the place of a step among those offered, from 0", i+1, word)
			}
			p.path = append(p.path, n)
		}
	}
	if p.at, err = number(q, "at", len(p.path), 0); err == nil && p.at > len(p.path) {
		err = fmt.Errorf("at=%d: the path has %d steps", p.at, len(p.path))
	}
	return err
}

// parseWishes reads the rest.
func (p *place) parseWishes(q url.Values) error {
	switch q.Get("check") {
	case "":
	case "1":
		p.check = true
	case "play":
		p.checked = true
	default:
		return fmt.Errorf("check=%q: give 1, or play", q.Get("check"))
	}
	if text := q.Get("play"); text != "" && text != "1" {
		return fmt.Errorf("play=%q: give 1, or leave it out", text)
	}
	p.play = q.Get("play") != ""
	for _, turn := range []string{p.beside, p.turn} {
		if turn == "" {
			continue
		}
		if _, err := p.design.turned(turn); err != nil {
			return err
		}
	}
	if p.turn != "" && p.checked {
		return errors.New("the address says both turn= and check=play: one at a time")
	}
	return nil
}

// pair is one part of an address.
type pair struct{ Name, Value string }

// pairs are what the address of a place says, but for the path.
func (p place) pairs() []pair {
	out := p.design.pairs()
	if p.beside != "" {
		out = append(out, pair{"beside", p.beside})
	}
	if p.check {
		out = append(out, pair{"check", "1"})
	}
	return out
}

func (d design) pairs() []pair {
	out := []pair{{"model", d.entry.Name}}
	for _, b := range d.bounds() {
		if b.bound.Most > 0 {
			out = append(out, pair{b.name, strconv.Itoa(*b.value)})
		}
	}
	for _, x := range []pair{{"without", strings.Join(d.Without, ",")}, {"version", d.Version}, {"gate", d.Gate}} {
		if x.Value != "" {
			out = append(out, x)
		}
	}
	return out
}

// url is the relative address of a place.
func (p place) url() string {
	all := p.pairs()
	if len(p.path) > 0 {
		all = append(all, pair{"path", written(p.path)})
	}
	if p.at < len(p.path) {
		all = append(all, pair{"at", strconv.Itoa(p.at)})
	}
	if p.play {
		all = append(all, pair{"play", "1"})
	}
	parts := make([]string, len(all))
	for i, x := range all {
		parts[i] = x.Name + "=" + strings.NewReplacer("%2C", ",", "%3A", ":").Replace(url.QueryEscape(x.Value))
	}
	return "./?" + strings.Join(parts, "&")
}

// written is a path as an address has it.
func written(path []int) string {
	words := make([]string, len(path))
	for i, n := range path {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ".")
}

// upTo is the place after so many steps of the same path.
func (p place) upTo(n int) place {
	p.at, p.play = n, false
	return p
}
