package specs

import (
	"fmt"

	"briefrail/internal/model"
)

// Judged is a property by its name: what there is to ask a variant about.
type Judged struct {
	Name string     `json:"name"`
	Kind model.Kind `json:"kind"`
}

func (c checked[S, A]) Properties() []Judged {
	judged := make([]Judged, len(c.model.Properties))
	for i, p := range c.model.Properties {
		judged[i] = Judged{p.Name, p.Kind}
	}
	return judged
}

func (c checked[S, A]) Actions(path []int) (taken, offered []string, err error) {
	s := c.model.Initial
	for i := 0; ; i++ {
		offered = nil
		c.model.Next(s, func(a A, _ S) { offered = append(offered, fmt.Sprintf("%+v", a)) })
		if i == len(path) {
			return taken, offered, nil
		}
		if s, _, err = c.take(s, path[i]); err != nil {
			return nil, nil, fmt.Errorf("step %d of the path: %w", i+1, err)
		}
		taken = append(taken, offered[path[i]])
	}
}
