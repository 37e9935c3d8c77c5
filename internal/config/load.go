package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// Source is where the configuration of one process comes from. Flags may be nil;
// Env has the form of os.Environ.
type Source struct {
	Component Component
	Flags     *pflag.FlagSet
	Env       []string
}

// layer is one place that gives a setting a value.
type layer struct {
	origin string
	value  raw
}

// Load reads, decodes and validates the configuration. Its error wraps ErrInvalid
// and one Problem for each mistake; there is no Config then.
func Load(src Source) (*Config, error) {
	var ps problems
	settings, env := table(), readEnv(src.Env)
	env.strays(knownEnv(settings), &ps)
	file := loadFile(src, env, settings, &ps)
	env.withoutTraces(src, file)
	env.refuseClientCertificates(&ps)

	v := viper.New()
	cfg := &Config{component: src.Component, origin: map[string]string{}}
	for _, s := range settings {
		layers := []layer{{"default", raw{form: scalar, text: s.initialFor(src.Component), unparsed: true}}}
		if l, ok := file[s.key]; ok {
			layers = append(layers, l)
		}
		layers = append(layers, outerLayers(s, src, env)...)
		cfg.apply(v, s, layers, &ps)
	}
	if err := ps.err(); err != nil {
		return nil, err
	}
	if err := decode(v, &cfg.Settings); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	cfg.derive()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return cfg, nil
}

// outerLayers are environment and flag, which stand above the file.
func outerLayers(s setting, src Source, env environment) (layers []layer) {
	for _, name := range s.envs() {
		if text, ok := env[name]; ok {
			layers = append(layers, layer{"environment " + name, raw{form: scalar, text: text, unparsed: true}})
		}
	}
	if text, ok := changedFlag(src.Flags, s.flag()); ok {
		layers = append(layers, layer{"flag --" + s.flag(), raw{form: scalar, text: text, unparsed: true}})
	}
	return layers
}

// apply parses every layer, the outermost last, so that viper keeps it. A value
// that another one hides must be right too: it would wait there as a trap.
func (c *Config) apply(v *viper.Viper, s setting, layers []layer, ps *problems) {
	for i, l := range layers {
		value, err := s.kind.parse(l.value)
		if err != nil {
			ps.add(Problem{Key: s.key, Origin: l.origin, Value: s.shown(l.value), Fault: err.Error(), Want: "write " + s.kind.want})
			continue
		}
		if i == 0 {
			v.SetDefault(s.key, value)
		} else {
			v.Set(s.key, value)
		}
		c.origin[s.key] = l.origin
	}
}

// shown returns the text of a bad value where it may be told.
func (s setting) shown(r raw) string {
	if s.secret || s.kind.path || r.form != scalar {
		return ""
	}
	return strings.ToValidUTF8(r.text, "\uFFFD")
}

// decode moves viper's values into the struct. Every setting must have its field
// and every field its setting, and no value may change its type on the way.
func decode(v *viper.Viper, into *Settings) error {
	strict := func(d *mapstructure.DecoderConfig) {
		d.WeaklyTypedInput = false
		d.ErrorUnset = true
		d.DecodeHook = sameType
	}
	return v.UnmarshalExact(into, strict)
}

// sameType refuses the conversions that made 15 into 15 nanoseconds.
func sameType(from, to reflect.Type, data any) (any, error) {
	if from != to && to.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s cannot become %s", from, to)
	}
	return data, nil
}

func knownEnv(settings []setting) []string {
	names := []string{configEnv}
	for _, s := range settings {
		names = append(names, s.envs()...)
	}
	return names
}

// loadFile reads the file that flag or environment name and returns its values by
// key.
func loadFile(src Source, env environment, settings []setting, ps *problems) map[string]layer {
	path, origin := env[configEnv], "environment "+configEnv
	if p, ok := changedFlag(src.Flags, configFlag); ok {
		path, origin = p, "flag --"+configFlag
	}
	if path == "" {
		return nil
	}
	tree, err := readFile(path)
	if err != nil {
		ps.add(Problem{
			Key: "configuration file", Origin: origin, Value: path, Fault: err.Error(),
			Want: "name a readable YAML or TOML file",
		})
		return nil
	}
	w := newWalker(path, settings, ps)
	w.walk("", tree)
	return w.found
}
