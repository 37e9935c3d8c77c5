package main

import (
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/authority/api"
	"briefrail/internal/config"
	"briefrail/internal/pg"
)

// newAPI makes the interface of intents, which listens nowhere where it is off. It uses
// the sessions that the loops leave.
func newAPI(cfg *config.Config, db pg.DB, wake func(), reg prometheus.Registerer, log *slog.Logger) (*api.Server, error) {
	o := api.Options{DB: db, Listen: cfg.API.Listen, AtOnce: cfg.Database.Spare(), Wake: wake, Registerer: reg, Log: log}
	if cfg.API.TokenFile != "" {
		o.Tokens = cfg.API.TokenFile.ReadPrivate
	}
	if cfg.API.CertificateFile != "" {
		o.Certificate = func() (chain, key string, err error) {
			if chain, err = cfg.API.CertificateFile.Read(); err != nil {
				return "", "", err
			}
			key, err = cfg.API.KeyFile.ReadPrivate()
			return chain, key, err
		}
	}
	s, err := api.New(o)
	if err != nil {
		return nil, fmt.Errorf("%w: api: %w", config.ErrInvalid, err)
	}
	return s, nil
}
