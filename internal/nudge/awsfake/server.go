package awsfake

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options shape a Server. Zero fields mean: region us-east-1, account 000000000000,
// seed 1, 1 MiB a call (the limit of AWS since January 2026), 200,000 messages a queue.
type Options struct {
	Region      string
	Account     string
	Seed        uint64
	MaxBytes    int // of all entries of one call
	MaxMessages int // a queue; one more is refused as OverLimit
}

// Server is the fake. It is an http.Handler; its methods may be called at any time.
type Server struct {
	opts Options
	ops  map[string]operation

	mu       sync.Mutex
	queues   map[string]*queue
	buses    map[string]*bus
	scripts  map[string][]Fault
	standing map[string][]standing
	chaos    Chaos
	random   *rand.Rand
	ahead    time.Duration // how far Advance moved the clock
	changed  chan struct{} // closed and replaced when a long poll should look again
	stats    Stats
	lastKey  string
}

// New makes a fake with the bus "default" and no queue.
func New(opts Options) *Server {
	opts.Region = cmp.Or(opts.Region, "us-east-1")
	opts.Account = cmp.Or(opts.Account, "000000000000")
	opts.MaxBytes = cmp.Or(opts.MaxBytes, 1<<20)
	opts.MaxMessages = cmp.Or(opts.MaxMessages, 200_000)
	s := &Server{
		opts: opts, ops: operations(), queues: make(map[string]*queue), buses: make(map[string]*bus),
		scripts: make(map[string][]Fault), standing: make(map[string][]standing), changed: make(chan struct{}),
		random: rand.New(rand.NewPCG(cmp.Or(opts.Seed, 1), 0)), stats: newStats(),
	}
	s.buses["default"] = s.newBus("default")
	return s
}

// Listen serves the fake on an address like 127.0.0.1:0 until close is called, and
// returns its URL, for a client on this machine. close ends calls that hang.
func (s *Server) Listen(address string) (url string, closeServer func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", nil, fmt.Errorf("listen for the fake: %w", err)
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // it ends with closeServer, which is no fault
	}()
	return "http://" + reachable(listener.Addr()), func() {
		_ = server.Close() // calls that hang are cut: that is what it is for
		<-done
	}, nil
}

// reachable is an address to call: one that listens everywhere is no place to go to.
func reachable(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return a.String()
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
}

// maxRequest bounds what is read of one call: more than AWS takes, so that a test sees
// the refusal.
const maxRequest = 4 << 20

// call is one call of an operation.
type call struct {
	ctx   context.Context
	host  string
	in    []byte
	fault Fault
}

// operation answers one call, or refuses it.
type operation func(*Server, *call) (any, *refusal)

// operations are the calls that the fake knows, by the name in X-Amz-Target.
func operations() map[string]operation {
	return map[string]operation{
		"AWSEvents.PutEvents": (*Server).putEvents, "AWSEvents.CreateEventBus": (*Server).createBus,
		"AWSEvents.DescribeEventBus": (*Server).describeBus, "AWSEvents.PutRule": (*Server).putRule,
		"AWSEvents.DescribeRule": (*Server).describeRule, "AWSEvents.ListRules": (*Server).listRules,
		"AWSEvents.PutTargets": (*Server).putTargets, "AWSEvents.ListTargetsByRule": (*Server).listTargets,
		"AWSEvents.RemoveTargets": (*Server).removeTargets, "AWSEvents.DeleteRule": (*Server).deleteRule,
		"AWSEvents.DeleteEventBus": (*Server).deleteBus,
		"AWSEvents.EnableRule":     (*Server).enableRule, "AWSEvents.DisableRule": (*Server).disableRule,
		"AmazonSQS.CreateQueue": (*Server).createQueue, "AmazonSQS.GetQueueUrl": (*Server).getQueueURL,
		"AmazonSQS.GetQueueAttributes": (*Server).getAttributes, "AmazonSQS.SetQueueAttributes": (*Server).setAttributes,
		"AmazonSQS.SendMessage": (*Server).sendMessage, "AmazonSQS.SendMessageBatch": (*Server).sendBatch,
		"AmazonSQS.ReceiveMessage": (*Server).receive, "AmazonSQS.DeleteMessage": (*Server).deleteMessage,
		"AmazonSQS.DeleteMessageBatch": (*Server).deleteBatch, "AmazonSQS.ChangeMessageVisibility": (*Server).changeVisibility,
		"AmazonSQS.ChangeMessageVisibilityBatch": (*Server).changeBatch, "AmazonSQS.StartMessageMoveTask": (*Server).startMove,
		"AmazonSQS.ListMessageMoveTasks": (*Server).listMoves, "AmazonSQS.PurgeQueue": (*Server).purge,
		"AmazonSQS.DeleteQueue": (*Server).deleteQueue, "AmazonSQS.ListQueues": (*Server).listQueues,
	}
}

// ServeHTTP answers a call of the AWS JSON protocol (1.0 and 1.1), and of the fake's own
// control below /_fake/.
// https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/_fake/") {
		s.control(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	target := r.Header.Get("X-Amz-Target")
	service, name, _ := strings.Cut(target, ".")
	op, known := s.ops[target]
	switch {
	case err != nil:
		return // the caller is gone
	case len(body) > maxRequest:
		writeRefusal(w, service, refuse(http.StatusRequestEntityTooLarge, "RequestEntityTooLargeException", "the request is too large"))
		return
	case r.Method != http.MethodPost || !known:
		writeRefusal(w, service, refuse(http.StatusBadRequest, "UnknownOperationException", "the fake does not know "+target))
		return
	}
	s.noteKey(r.Header.Get("Authorization"))
	c := &call{ctx: r.Context(), host: r.Host, in: body, fault: s.next(name)}
	s.answer(w, c, service, name, op)
}

// noteKey keeps the access key id of a call: "AWS4-HMAC-SHA256 Credential=ID/…". It is
// no secret, and nothing else of a signature is looked at.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
func (s *Server) noteKey(authorization string) {
	_, rest, _ := strings.Cut(authorization, "Credential=")
	key, _, _ := strings.Cut(rest, "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastKey = key
}

// LastKey returns the access key id that the latest call was signed with.
func (s *Server) LastKey() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastKey
}

// answer does what the script says around the operation itself. It counts before it
// answers, so that whoever has the answer finds it counted.
func (s *Server) answer(w http.ResponseWriter, c *call, service, name string, op operation) {
	f := c.fault
	switch {
	case f.resetFirst:
		s.count(name, "reset")
		reset(w)
	case f.hang && !f.accept:
		s.count(name, "hung")
		<-c.ctx.Done()
	case f.garbage != nil:
		s.count(name, "garbage")
		f.garbage.write(w)
	case f.code != "":
		s.count(name, f.code)
		writeRefusal(w, service, refuse(f.status, f.codeFor(service), "scripted"))
	default:
		s.perform(w, c, service, name, op)
	}
}

// perform does the operation, and loses the answer where the script says so.
func (s *Server) perform(w http.ResponseWriter, c *call, service, name string, op operation) {
	out, refused := op(s, c)
	switch f := c.fault; {
	case refused != nil:
		s.count(name, refused.code)
		writeRefusal(w, service, refused)
	case f.reset:
		s.count(name, "accepted_reset")
		reset(w)
	case f.hang:
		s.count(name, "accepted_hung")
		<-c.ctx.Done()
	default:
		s.count(name, "ok")
		writeAnswer(w, service, out)
	}
}

// reset cuts the connection so that the caller sees "connection reset by peer".
func reset(w http.ResponseWriter) {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler) // a recorder of httptest: the nearest thing to a cut
	}
	conn, _, err := hijacker.Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a reset instead of an orderly end; at worst it is one of those
	}
	conn.Close()
}

// refusal is an error answer.
type refusal struct {
	status     int
	code, text string
}

func refuse(status int, code, text string) *refusal {
	return &refusal{status: status, code: code, text: text}
}

// writeRefusal writes an error as the JSON protocol has it. SQS adds the old query
// protocol's code in a header.
// https://smithy.io/2.0/aws/protocols/aws-query-protocol.html#x-amzn-query-error-header
func writeRefusal(w http.ResponseWriter, service string, r *refusal) {
	name := r.code
	if service == "AmazonSQS" {
		w.Header().Set("x-amzn-query-error", queryCode(r.code)+";Sender")
		name = "com.amazonaws.sqs#" + r.code
	}
	write(w, service, cmp.Or(r.status, http.StatusBadRequest), map[string]string{"__type": name, "message": r.text})
}

// queryCode is the code of the query protocol.
func queryCode(code string) string {
	switch code {
	case "QueueDoesNotExist":
		return "AWS.SimpleQueueService.NonExistentQueue"
	case "BatchRequestTooLong", "TooManyEntriesInBatchRequest", "EmptyBatchRequest", "BatchEntryIdsNotDistinct", "MessageNotInflight":
		return "AWS.SimpleQueueService." + code
	}
	return code
}

func writeAnswer(w http.ResponseWriter, service string, out any) {
	write(w, service, http.StatusOK, out)
}

func write(w http.ResponseWriter, service string, status int, out any) {
	kind := "application/x-amz-json-1.1"
	if service == "AmazonSQS" {
		kind = "application/x-amz-json-1.0"
	}
	body, err := json.Marshal(out)
	if err != nil {
		body, status = []byte(`{"__type":"InternalFailure"}`), http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("x-amzn-RequestId", newID())
	w.WriteHeader(status)
	_, _ = w.Write(body) // a caller that is gone needs no answer
}

// input reads a call's parameters. Unknown members are ignored, as AWS does.
func input(c *call, into any) *refusal {
	if err := json.Unmarshal(c.in, into); err != nil {
		code := "SerializationException"
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return refuse(0, code, "wrong type of "+wrong.Field)
		}
		return refuse(0, code, "the request is not JSON")
	}
	return nil
}

// Advance moves the fake's clock: visibility, delay and retention end sooner.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
	s.wake()
}

// now is the fake's clock. s.mu is held.
func (s *Server) now() time.Time { return time.Now().Add(s.ahead) }

// wake has every long poll look again. s.mu is held.
func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}
