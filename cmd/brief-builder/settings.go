package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"briefrail/internal/pg"
)

// call is one invocation: what came with it and where it may write.
type call struct {
	name           string
	args           []string
	env            map[string]string // BRIEF_* without the prefix
	stdout, stderr io.Writer
}

const (
	prefix        = "BRIEF_"
	defaultListen = "127.0.0.1:8087"
)

// settings are the names of the variables that the program knows.
func settings() []string {
	return []string{"DATABASE_URL", "DATABASE_URL_FILE", "LISTEN", "DELAY", "LOG_LEVEL"}
}

// readEnv takes the BRIEF_* variables and refuses those it does not know: a
// misspelt setting must not be a silent default.
func readEnv(environ []string) (map[string]string, error) {
	env := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		key, ours := strings.CutPrefix(name, prefix)
		if !ours {
			continue
		}
		if !slices.Contains(settings(), key) {
			return nil, fmt.Errorf("%w: unknown variable %s; known are %s%s", errUsage, name, prefix, strings.Join(settings(), ", "+prefix))
		}
		env[key] = value
	}
	return env, nil
}

// parse reads the flags of a command and returns the arguments besides them.
func (c *call) parse(flags *pflag.FlagSet, positional ...string) ([]string, error) {
	flags.SetOutput(c.stdout)
	flags.Usage = func() {
		fmt.Fprintf(c.stdout, "Usage: brief-builder %s\n\n%s", strings.Join(append([]string{c.name}, positional...), " "), flags.FlagUsages())
	}
	if err := flags.Parse(c.args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	if flags.NArg() != len(positional) {
		return nil, fmt.Errorf("%w: %s takes %d argument(s) %s, got %d", errUsage, c.name, len(positional), strings.Join(positional, " "), flags.NArg())
	}
	return flags.Args(), nil
}

// newFlags makes the flags that every command with a database has.
func (c *call) newFlags() (*pflag.FlagSet, *string) {
	flags := pflag.NewFlagSet(c.name, pflag.ContinueOnError)
	flags.SortFlags = false
	return flags, flags.String("database-url", "", "postgres:// URL; better in BRIEF_DATABASE_URL or BRIEF_DATABASE_URL_FILE, as other users see flags")
}

// database finds the connection string: flag, variable, or file.
func (c *call) database(flag string) (pg.Options, error) {
	o := pg.Options{DSN: flag, ApplicationName: "brief-builder " + version, StatementTimeout: 30 * time.Second}
	if o.DSN != "" {
		return o, nil
	}
	url, file := c.env["DATABASE_URL"], c.env["DATABASE_URL_FILE"]
	if url != "" && file != "" {
		return o, fmt.Errorf("%w: BRIEF_DATABASE_URL and BRIEF_DATABASE_URL_FILE are both set: keep one of them", errUsage)
	}
	if file != "" {
		body, err := os.ReadFile(file)
		if err != nil {
			return o, fmt.Errorf("%w: BRIEF_DATABASE_URL_FILE: %w", errUsage, err)
		}
		url = strings.TrimSpace(string(body))
	}
	if url == "" {
		return o, fmt.Errorf("%w: no database: set BRIEF_DATABASE_URL or BRIEF_DATABASE_URL_FILE", errUsage)
	}
	o.DSN = url
	return o, nil
}

// duration reads a setting that must have a unit.
func (c *call) duration(key string) (time.Duration, error) {
	v := c.env[key]
	if v == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 || v == "0" {
		return 0, fmt.Errorf("%w: %s%s=%q is not a duration: use a unit, like 3s", errUsage, prefix, key, v)
	}
	return d, nil
}

func (c *call) listen() string {
	if v := c.env["LISTEN"]; v != "" {
		return v
	}
	return defaultListen
}
