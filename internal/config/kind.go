package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind is how the text of a setting becomes a value. parse returns exactly the
// type of the setting's field; its error says what is wrong with the value, and
// want says what to write instead.
type kind struct {
	name   string
	want   string
	bounds string // for the reference; "" where there are none
	list   bool
	hasOff bool   // the word off may stand for zero
	zero   string // the text of zero, where there is an off
	path   bool   // the value may be a secret given by mistake: never echoed
	parse  func(raw) (any, error)
}

// off makes the word off another spelling of zero (itself a valid text of k, or
// "" for a text kind).
func (k kind) off(zero string) kind {
	inner := k.parse
	k.want += ", or off"
	k.hasOff, k.zero = true, zero
	k.parse = func(r raw) (any, error) {
		if r.form == scalar && r.text == "off" {
			r.text = zero
			if zero == "" {
				return "", nil
			}
		}
		return inner(r)
	}
	return k
}

// ofText makes a parser of one scalar.
func ofText(f func(string) (any, error)) func(raw) (any, error) {
	return func(r raw) (any, error) {
		if r.form != scalar {
			return nil, fmt.Errorf("is %s, not a single value", r.form)
		}
		if !utf8.ValidString(r.text) || strings.ContainsRune(r.text, 0) {
			return nil, errors.New("is not valid UTF-8 text")
		}
		return f(r.text)
	}
}

func integer(least, most int) kind {
	bounds := fmt.Sprintf("%d to %d", least, most)
	return kind{name: "number", want: "a whole number from " + bounds, bounds: bounds, parse: ofText(func(s string) (any, error) {
		if !decimal(s) {
			return nil, errors.New("is not a whole number")
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return nil, errors.New("is out of bounds")
		}
		return n, nil
	})}
}

// decimal accepts what has one meaning only: 010 is octal to some, 1e3 and 1_000
// are numbers to some.
func decimal(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || (len(digits) > 1 && digits[0] == '0') {
		return false
	}
	return strings.Trim(digits, "0123456789") == ""
}

func boolean() kind {
	return kind{name: "on/off", want: "on or off (or true or false)", parse: ofText(func(s string) (any, error) {
		switch s {
		case "on", "true":
			return true, nil
		case "off", "false":
			return false, nil
		}
		return nil, errors.New("is neither on nor off")
	})}
}

func text(least, most int) kind {
	return kind{name: "text", want: fmt.Sprintf("text of %d to %d bytes", least, most), parse: ofText(func(s string) (any, error) {
		if len(s) < least || len(s) > most {
			return nil, errors.New("has the wrong length")
		}
		return s, nil
	})}
}

func choice(words ...string) kind {
	list := strings.Join(words, ", ")
	return kind{name: "word", want: "one of " + list, bounds: list, parse: ofText(func(s string) (any, error) {
		if !slices.Contains(words, s) {
			return nil, errors.New("is not a known word")
		}
		return s, nil
	})}
}

func listen() kind {
	return kind{name: "address", want: "host:port, such as 127.0.0.1:9464 or :9464", parse: ofText(func(s string) (any, error) {
		_, port, err := net.SplitHostPort(s)
		if err != nil {
			return nil, errors.New("is not an address")
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil || !decimal(port) {
			return nil, errors.New("has no valid port")
		}
		return s, nil
	})}
}

func httpURL() kind {
	return kind{name: "URL", want: "an absolute URL, such as http://builder:8080/build", path: true, parse: ofText(func(s string) (any, error) {
		u, err := url.Parse(s)
		switch {
		case s == "":
			return s, nil
		case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
			return nil, errors.New("is not an http or https URL")
		case u.User != nil:
			return nil, errors.New("carries a user or password, which would be shown; use a file for secrets")
		case u.Fragment != "":
			return nil, errors.New("carries a fragment, which is never sent")
		}
		return s, nil
	})}
}

// predicate keeps open_matter_sql one condition. It is the operator's own SQL,
// run with the worker's rights, so this guards against slips, not against people.
func predicate() kind {
	return kind{name: "SQL", want: "one SQL condition without a semicolon or comment", parse: ofText(func(s string) (any, error) {
		if strings.Contains(s, ";") || strings.Contains(s, "--") || strings.Contains(s, "/*") {
			return nil, errors.New("is more than a condition")
		}
		return strings.TrimSpace(s), nil
	})}
}

func eventSource() kind {
	grammar := regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._/-]{0,255}\z`)
	return kind{name: "text", want: "letters, digits and . _ / -, not starting with aws.", parse: ofText(func(s string) (any, error) {
		if !grammar.MatchString(s) || strings.HasPrefix(strings.ToLower(s), "aws.") {
			return nil, errors.New("is not a source name that a bus takes from us")
		}
		return s, nil
	})}
}

func secretFile() kind {
	return kind{name: "path", want: "the absolute path of a readable file that holds the secret", path: true, parse: ofText(func(s string) (any, error) {
		if s != "" && !strings.HasPrefix(s, "/") {
			return nil, errors.New("is not an absolute path (a path belongs here, not the secret itself)")
		}
		return SecretFile(s), nil
	})}
}
