package model

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// DOT writes the graph in the language of Graphviz: the initial state first and
// bold, states that break a property filled, faults dashed and red.
func (g *Graph[S, A]) DOT(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "digraph %q {\n  rankdir=LR;\n  node [shape=box, fontname=\"Helvetica\"];\n  edge [fontname=\"Helvetica\"];\n", g.model.Name)
	bad := g.bad()
	for id := range g.States() {
		style := ""
		switch {
		case bad[id]:
			style = ", style=filled, fillcolor=\"#f4c7c3\""
		case id == 0:
			style = ", style=bold"
		}
		fmt.Fprintf(out, "  s%d [label=\"%d\", tooltip=%q%s];\n", id, id, g.words(id), style)
	}
	for e := range g.Edges() {
		style := ""
		if g.model.isFault(e.Action) {
			style = ", style=dashed, color=red, fontcolor=red"
		}
		fmt.Fprintf(out, "  s%d -> s%d [label=%q%s];\n", e.From, e.To, g.label(e), style)
	}
	fmt.Fprintln(out, "}")
	return out.Flush()
}

// Mermaid writes the graph as a Mermaid flowchart, faults dotted. It is meant for
// some hundred states: the browser draws no more.
func (g *Graph[S, A]) Mermaid(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "flowchart LR")
	bad := g.bad()
	for id := range g.States() {
		class := ""
		if bad[id] {
			class = ":::bad"
		}
		fmt.Fprintf(out, "  s%d[\"%d: %s\"]%s\n", id, id, quoteless(g.words(id)), class)
	}
	for e := range g.Edges() {
		arrow := "-->"
		if g.model.isFault(e.Action) {
			arrow = "-.->"
		}
		fmt.Fprintf(out, "  s%d %s|\"%s\"| s%d\n", e.From, arrow, quoteless(g.label(e)), e.To)
	}
	fmt.Fprintln(out, "  classDef bad fill:#f4c7c3,stroke:#b00020")
	return out.Flush()
}

// quoteless keeps a text inside Mermaid's quotes.
func quoteless(s string) string { return strings.ReplaceAll(s, `"`, "'") }

// label is the label of one edge.
func (g *Graph[S, A]) label(e Edge[A]) string {
	return g.model.Label(g.State(e.From), e.Action, g.State(e.To))
}

// bad marks the states that break a Never or a Recoverable property.
func (g *Graph[S, A]) bad() []bool {
	bad := make([]bool, g.States())
	for _, p := range g.model.Properties {
		if p.Kind == Reachable || (p.Kind == Recoverable && !g.Complete()) {
			continue
		}
		for id, marked := range g.Marked(p) {
			bad[id] = bad[id] || marked
		}
	}
	return bad
}

// Fields describes a state for people.
func (m *Model[S, A]) Fields(s S) []Field {
	if m.Describe == nil {
		return []Field{{Name: "state", Value: fmt.Sprintf("%+v", s)}}
	}
	return m.Describe(s)
}

// words is Fields on one line.
func (g *Graph[S, A]) words(id int) string {
	var parts []string
	for _, f := range g.model.Fields(g.State(id)) {
		parts = append(parts, f.Name+" "+f.Value)
	}
	return strings.Join(parts, ", ")
}
