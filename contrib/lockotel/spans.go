package lockotel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// spans returns hooks that make spans and then call next.
func (t *Telemetry) spans(next lockrt.Hooks) lockrt.Hooks {
	hooks := next
	hooks.AcquireEnd = func(ctx context.Context, e lockrt.AcquireEvent) {
		if e.Err != nil || e.Waited > t.slow || t.slow <= 0 {
			t.acquired(ctx, &e)
		}
		if next.AcquireEnd != nil {
			next.AcquireEnd(ctx, e)
		}
	}
	hooks.Acquired = func(ctx context.Context, e lockrt.AcquireEvent) context.Context {
		ctx = t.holds(ctx, &e)
		if next.Acquired != nil {
			if child := t.acquiredBy(ctx, next, e); child != nil { // without a context it keeps the one it got, which has the span
				ctx = child
			}
		}
		return ctx
	}
	hooks.Renewed = func(ctx context.Context, e lockrt.RenewEvent) {
		if span := t.holdOf(ctx, e.ID); e.Err != nil && span != nil {
			span.AddEvent("renewal failed", trace.WithAttributes(attribute.String("error", t.textOf(e.Err, e.Key))))
		}
		if next.Renewed != nil {
			next.Renewed(ctx, e)
		}
	}
	hooks.Ended = func(ctx context.Context, e lockrt.EndEvent) {
		if span := t.holdOf(ctx, e.ID); span != nil {
			t.strays.Delete(e.ID)
			ended(span, &e)
		}
		if next.Ended != nil {
			next.Ended(ctx, e)
		}
	}
	if hooks.TraceParent == nil {
		hooks.TraceParent = traceParent
	}
	return hooks
}

// acquired makes the span of a call that has ended.
func (t *Telemetry) acquired(ctx context.Context, e *lockrt.AcquireEvent) {
	at := time.Now()
	attrs := append(t.describe(e), attrOutcome.String(string(e.Outcome)), attrContended.Bool(e.Contended))
	_, span := t.tracer.Start(ctx, "lock acquire", trace.WithTimestamp(at.Add(-e.Waited)), trace.WithAttributes(attrs...),
		trace.WithLinks(links(e.HolderTraces)...))
	if e.Err != nil && (e.Outcome == lockrt.OutcomeError || e.Outcome == lockrt.OutcomeLost) {
		span.AddEvent("exception", trace.WithTimestamp(at), trace.WithAttributes(
			attribute.String("exception.type", typeOf(e.Err)),
			attribute.String("exception.message", t.textOf(e.Err, append(slices.Clone(e.Parts), e.Key)...))))
		span.SetStatus(codes.Error, "the lock could not be had")
	}
	span.End(trace.WithTimestamp(at))
}

// textOf returns the text of err. Without WithKeys it names neither keys nor the keys of locks that err is about: other
// leases of the call, and calls of a deadlock.
func (t *Telemetry) textOf(err error, keys ...string) string {
	text := err.Error()
	if !t.keys {
		for _, key := range keysIn(err, keys) {
			text = strings.ReplaceAll(text, strconv.Quote(key), "a key")
		}
	}
	return valid(text)
}

// keysIn adds the keys that the text of err names to keys.
func keysIn(err error, keys []string) []string {
	if of, ok := err.(*lockrt.Error); ok { //nolint:errorlint // the errors below it are next
		keys = append(keys, of.Key)
	}
	if of, ok := err.(*lockrt.DeadlockError); ok { //nolint:errorlint // likewise
		for _, call := range of.Deadlock.Calls {
			keys = append(keys, call.Key)
		}
	}
	switch of := err.(type) { //nolint:errorlint // likewise
	case interface{ Unwrap() []error }:
		for _, one := range of.Unwrap() {
			keys = keysIn(one, keys)
		}
	default:
		if below := errors.Unwrap(err); below != nil {
			keys = keysIn(below, keys)
		}
	}
	return keys
}

// valid returns text that an exporter takes: many send nothing of a batch in which one text is not UTF-8.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// links returns links to the traces of holders. It leaves out a text that is no trace parent: other processes write
// these texts.
func links(holders []string) (all []trace.Link) {
	for _, parent := range holders {
		carrier := propagation.MapCarrier{"traceparent": parent}
		of := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
		if of.IsValid() {
			all = append(all, trace.Link{SpanContext: of, Attributes: []attribute.KeyValue{attrLink.String("holder")}})
		}
	}
	return all
}

// holds begins the span of a lease.
func (t *Telemetry) holds(ctx context.Context, e *lockrt.AcquireEvent) context.Context {
	ctx, span := t.tracer.Start(ctx, "lock hold", trace.WithAttributes(t.describe(e)...))
	return context.WithValue(ctx, holdKey{t}, span)
}

// acquiredBy calls the hook of next. If the hook panics, the client gets no context with the span of the lease: the span is then a stray.
func (t *Telemetry) acquiredBy(ctx context.Context, next lockrt.Hooks, e lockrt.AcquireEvent) (child context.Context) {
	returned := false
	defer func() {
		if !returned {
			t.strays.Store(e.ID, ctx.Value(holdKey{t}))
		}
	}()
	child = next.Acquired(ctx, e)
	returned = true
	return child
}

// ended ends the span of a lease.
func ended(span trace.Span, e *lockrt.EndEvent) {
	span.SetAttributes(attrCause.String(string(e.Reason)))
	if e.Reason != lockrt.EndReleased && e.Reason != lockrt.EndClosed {
		span.AddEvent("lease lost", trace.WithTimestamp(e.At), trace.WithAttributes(attrReason.String(string(e.Reason))))
		span.SetStatus(codes.Error, "the lease was lost: "+string(e.Reason))
	}
	span.End(trace.WithTimestamp(e.At))
}

// describe returns the attributes of a call.
func (t *Telemetry) describe(e *lockrt.AcquireEvent) []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, 6)
	attrs = append(attrs, attrKind.String(string(e.Kind)), attrName.String(valid(e.Name)))
	if len(e.Parts) > 0 {
		attrs = append(attrs, attrParts.Int(len(e.Parts)))
	}
	if t.keys {
		attrs = append(attrs, attrKey.String(valid(e.Key)))
	}
	return attrs
}

// holdKey is the key of the innermost lease's span in a context, as a Telemetry has it.
type holdKey struct{ of *Telemetry }

// holdOf returns the span of the lease of a call, or nil. Its hooks are called with ctx.
func (t *Telemetry) holdOf(ctx context.Context, call uint64) trace.Span {
	of, stray := t.strays.Load(call)
	if !stray {
		of = ctx.Value(holdKey{t})
	}
	span, _ := of.(trace.Span)
	return span
}

// traceParent returns the W3C trace parent of the span that ctx carries, or "".
func traceParent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get("traceparent")
}

// typeOf returns the type of err by the name that programs know it by: package lockrt has the types of errors under its own name.
func typeOf(err error) string {
	return strings.Replace(fmt.Sprintf("%T", err), "*observe.", "*lockrt.", 1)
}
