package nudge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
)

// errCredentials marks an error of getting credentials, whatever their source says.
var errCredentials = errors.New("no credentials")

// defaultTimeout is the deadline of a call; the SDK has none by itself.
const defaultTimeout = 10 * time.Second

// place is where a client calls and how long it waits.
type place struct {
	region, endpoint string
	timeout          time.Duration
}

// awsClient is what every client here has: a configuration, a deadline, counters.
type awsClient struct {
	cfg     aws.Config
	creds   *credentials
	place   place
	metrics *metrics
}

// newAWSClient reads the SDK's default configuration. Credentials come from there and
// nowhere else.
func newAWSClient(ctx context.Context, p place, m *metrics) (*awsClient, error) {
	if p.timeout <= 0 {
		p.timeout = defaultTimeout
	}
	cfg, err := load(ctx, p)
	if err != nil {
		return nil, err
	}
	creds := &credentials{inner: cfg.Credentials, again: func(ctx context.Context) (aws.Config, error) { return load(ctx, p) }}
	cfg.Credentials = creds
	return &awsClient{cfg: cfg, creds: creds, place: p, metrics: m}, nil
}

// load reads the configuration anew, files too.
func load(ctx context.Context, p place) (aws.Config, error) {
	var opts []func(*config.LoadOptions) error
	if p.region != "" {
		opts = append(opts, config.WithRegion(p.region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("read the AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		return aws.Config{}, errors.New("no AWS region is configured: set AWS_REGION")
	}
	return cfg, nil
}

// base returns the configured endpoint, or nil so that AWS_ENDPOINT_URL* and profiles
// keep their say.
func (c *awsClient) base() *string {
	if c.place.endpoint == "" {
		return nil
	}
	return aws.String(c.place.endpoint)
}

// call makes one call with a deadline of timeout, counts it and, where AWS says that
// the credentials are stale, has them read again for the next one. f returns whether
// every entry of the answer was taken.
func (c *awsClient) call(ctx context.Context, api string, timeout time.Duration, f func(context.Context) (whole bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	whole, err := f(ctx)
	c.metrics.observe(api, outcomeOf(whole, err), time.Since(start))
	if err == nil {
		return nil
	}
	if stale(codeOf(err)) {
		c.creds.forget()
	}
	return fmt.Errorf("%s: %w", api, err)
}

// stale reports whether a code means that the credentials have run out, were replaced
// or are missing, so that a new look at their source may help.
func stale(code string) bool {
	switch code {
	case codeCredentials, "ExpiredToken", "ExpiredTokenException", "InvalidToken", "UnrecognizedClientException", "InvalidClientTokenId", "InvalidAccessKeyId":
		return true
	}
	return false
}

// credentials hands out what the SDK found, and looks again after forget: a rotated
// file or a renewed role is then seen without a restart.
type credentials struct {
	again func(context.Context) (aws.Config, error)

	mu    sync.Mutex
	inner aws.CredentialsProvider // nil: look again
}

// Retrieve implements aws.CredentialsProvider.
func (c *credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	inner, err := c.provider(ctx)
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("%w: %w", errCredentials, err)
	}
	found, err := inner.Retrieve(ctx)
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("%w: %w", errCredentials, err)
	}
	return found, nil
}

func (c *credentials) provider(ctx context.Context) (aws.CredentialsProvider, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner != nil {
		return c.inner, nil
	}
	cfg, err := c.again(ctx)
	if err != nil {
		return nil, err
	}
	if cfg.Credentials == nil {
		return nil, errors.New("no source of credentials is configured")
	}
	c.inner = cfg.Credentials
	return c.inner, nil
}

// forget drops what is known, so that the next call looks again.
func (c *credentials) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inner = nil
}
