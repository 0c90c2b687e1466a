package ctl

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// watch shows the list again each second, until q or a signal.
func watch(ctx context.Context, o *options) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		lines := bufio.NewScanner(o.Stdin)
		for lines.Scan() {
			if strings.TrimSpace(lines.Text()) == "q" {
				cancel()
				return
			}
		}
	}()
	err := o.open(ctx, lockrt.Options{})
	if err != nil {
		return o.fail(codeOf(err), err)
	}
	defer func() { _ = o.c.Close() }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		bounded, done := context.WithTimeout(ctx, o.timeout)
		l, err := o.listing(bounded)
		done()
		switch {
		case ctx.Err() != nil:
			return exitOK
		case err != nil:
			fmt.Fprintf(o.Stderr, "lockctl watch: %s\n", clean(err.Error())) // the server may come back
		case o.json:
			o.print(l)
		default:
			o.redraw(l)
		}
		if o.out.err != nil { // the terminal is gone
			return exitOutput
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return exitOK
		}
	}
}

// redraw replaces the shown listing on a terminal.
func (o *options) redraw(l *Listing) {
	var text bytes.Buffer
	screen := *o
	screen.Stdout = &text
	if o.Colour { // a remark before the screen is cleared would be gone at once
		screen.Stderr = &text
		text.WriteString("\x1b[H\x1b[2J")
	}
	fmt.Fprintf(&text, "%s, %s; q and Enter ends it\n\n", time.Now().Format(time.TimeOnly), count(len(l.Locks), "lock", "locks"))
	screen.show(l)
	_, _ = o.Stdout.Write(text.Bytes()) // Run returns the error
}
