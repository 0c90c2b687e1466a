package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/sdk/trace"
)

// spans writes each span as a line to a file, in place of a collector.
type spans struct {
	mu   sync.Mutex
	file *os.File
}

var _ trace.SpanExporter = (*spans)(nil)

func newSpans(path string) (*spans, error) {
	file, err := os.Create(path)
	return &spans{file: file}, err
}

// ExportSpans implements [trace.SpanExporter].
func (s *spans) ExportSpans(_ context.Context, some []trace.ReadOnlySpan) error {
	var text strings.Builder
	for _, one := range some {
		fmt.Fprintf(&text, "%s %s %v", one.StartTime().Format("15:04:05.000"), one.Name(), one.EndTime().Sub(one.StartTime()))
		for _, a := range one.Attributes() {
			fmt.Fprintf(&text, " %s=%s", a.Key, a.Value.String())
		}
		for _, e := range one.Events() {
			fmt.Fprintf(&text, " event=%q", e.Name)
		}
		text.WriteString("\n")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.file.WriteString(text.String())
	return err
}

// Shutdown implements [trace.SpanExporter].
func (s *spans) Shutdown(context.Context) error { return nil }
