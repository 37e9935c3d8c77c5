package config

import "github.com/spf13/pflag"

// AddFlags defines --config and a flag for every setting that c uses, secrets and
// lists excepted. Flags keep their text; Load judges it together with the rest.
func AddFlags(fs *pflag.FlagSet, c Component) {
	fs.String(configFlag, "", "configuration `file`, YAML or TOML (or "+configEnv+")")
	for _, s := range table() {
		if s.usedBy(c) && s.flag() != "" {
			f := fs.VarPF(&flagText{text: s.initialFor(c), kind: s.kind.name}, s.flag(), "", s.doc)
			if s.kind.name == boolean().name {
				f.NoOptDefVal = "on"
			}
		}
	}
}

// flagText is a flag's value as written.
type flagText struct{ text, kind string }

// Set implements pflag.Value; it accepts everything.
func (f *flagText) Set(s string) error { f.text = s; return nil }

// String implements pflag.Value.
func (f *flagText) String() string { return f.text }

// Type implements pflag.Value.
func (f *flagText) Type() string { return f.kind }

// changedFlag returns the text of a flag that was given on the command line.
func changedFlag(fs *pflag.FlagSet, name string) (string, bool) {
	if fs == nil || name == "" {
		return "", false
	}
	f := fs.Lookup(name)
	if f == nil || !f.Changed {
		return "", false
	}
	return f.Value.String(), true
}
